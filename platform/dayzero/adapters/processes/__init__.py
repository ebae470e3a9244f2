"""Processes that live and die together."""
