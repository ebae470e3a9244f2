"""The command line: thin doors onto the app."""
