"""Templates of planning requests: data."""
