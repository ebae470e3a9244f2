"""Retention answers what a full store lets go, and what it never does."""
