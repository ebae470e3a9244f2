"""How long platforms take from live weights to verified, and where the time goes."""
