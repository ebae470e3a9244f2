"""The HTTP door: thin routes onto the app."""
