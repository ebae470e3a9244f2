"""Hubs: Hugging Face (and what speaks its API), folders, configuration files; and a folder served as a hub."""

from dayzero.adapters.hubs.choose import hub_for, parse_model_ref, resolve

__all__ = ["hub_for", "parse_model_ref", "resolve"]
