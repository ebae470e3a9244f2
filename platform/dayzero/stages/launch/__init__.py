"""A plan as the launch of each engine."""
