"""A plan in words, bars and pictures."""
