"""Which tensors a structure has, how many parameters, how many bytes."""
