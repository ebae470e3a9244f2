"""config.json becomes a typed configuration: the one door for foreign JSON."""
