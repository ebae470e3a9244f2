"""What the installed torch offers on a device: its operator manifest and its decompositions."""
