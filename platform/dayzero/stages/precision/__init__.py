"""Limits of precision, and what stands out by them."""
