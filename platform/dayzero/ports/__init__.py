"""Protocols between the pipeline and the world. Implementations live in adapters/; fakes in tests."""
