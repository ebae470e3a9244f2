"""Prefect flows: thin compositions of the pipeline's steps."""
