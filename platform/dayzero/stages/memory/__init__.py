"""What a rank needs of memory, item by item, and what a sequence or a training step keeps."""
