"""Weights onto the worker's disk: fetched as published, then cut for each rank."""
