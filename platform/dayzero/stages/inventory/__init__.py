"""Which operators a model needs, by the names of the taxonomy."""
