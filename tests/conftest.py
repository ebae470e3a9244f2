"""Fixtures that suites share."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["postgres_fixtures"]

# How long an example takes says something about the machine and what else runs on it, and nothing about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
