"""Which failures are the same one, what an entry's failures are, and which of the known ones a model will meet."""
