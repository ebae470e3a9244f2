"""Servers that already run, asked over the OpenAI-compatible protocol."""
