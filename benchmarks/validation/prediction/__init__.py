"""Predicted depths scored against measured sweeps."""
