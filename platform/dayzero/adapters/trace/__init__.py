"""Tracing architectures on the meta device, in a child process."""
