"""Sweeps found among launches."""
