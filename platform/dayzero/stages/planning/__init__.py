"""Which plans there are, which is best, why others are refused, where its ranks sit and what leads to it."""
