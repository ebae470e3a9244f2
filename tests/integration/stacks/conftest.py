"""Fixtures of this folder."""

from package_index import index

__all__ = ["index"]
