"""Which rungs of a plan's ladder are climbed, and what a rung that failed leaves of those above it."""
