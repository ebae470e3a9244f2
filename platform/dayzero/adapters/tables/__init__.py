"""Tables as files that other programs read."""
