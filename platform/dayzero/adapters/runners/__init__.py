"""Runners: observations in isolated child processes. Only child processes import torch."""
