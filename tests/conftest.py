"""Fixtures that suites share."""

pytest_plugins = ["postgres_fixtures"]
