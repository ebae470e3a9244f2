"""Safetensors headers and indexes, never values."""
