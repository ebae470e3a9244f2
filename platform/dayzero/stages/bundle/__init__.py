"""Everything that somebody needs to run a verified model."""
