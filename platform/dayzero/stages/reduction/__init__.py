"""The same architecture, small."""
