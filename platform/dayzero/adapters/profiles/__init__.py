"""Platform profiles: TOML files into nouns."""
