"""Verbs: noun in, noun out; deterministic; no clock, network, environment or device."""
