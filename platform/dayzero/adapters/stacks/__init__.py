"""Stacks as lock files in a folder, made by pip and installed by pip, each in a folder of its own."""
