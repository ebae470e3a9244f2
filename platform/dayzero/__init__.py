"""dayzero: new open models running, proven and listed on the day their weights appear."""
