"""A simulated accelerator: a torch device in Python whose missing kernels are really missing and whose memory is capped."""
