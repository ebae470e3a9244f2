"""Nouns: frozen dataclasses and enums, made of the standard library only."""
