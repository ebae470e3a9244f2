"""Doors for assistants."""
