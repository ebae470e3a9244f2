"""Secrets that are stored: locked with keys that are not."""
