"""Whether a run holds a model whole, or reads it layer by layer."""
