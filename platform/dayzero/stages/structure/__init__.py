"""A configuration and headers become a ModelSpec."""
