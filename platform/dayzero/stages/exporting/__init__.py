"""How the list is written for other programs."""
