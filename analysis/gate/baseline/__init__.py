"""Baselines and the repeats they are recorded from."""
