"""What a checkpoint becomes when its weights change their format: names, shapes and configuration, never values."""
