"""Weights from one format into another: numpy, window by window; no tensor library."""
