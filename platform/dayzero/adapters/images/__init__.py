"""Container images, built by a Docker engine."""
