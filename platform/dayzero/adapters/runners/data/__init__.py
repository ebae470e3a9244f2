"""Packaged data for observations: a short public-domain text."""
