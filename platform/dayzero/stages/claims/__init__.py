"""What others say of models on platforms, read from their files."""
