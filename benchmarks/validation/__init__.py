"""Holds what the analysis says against what was measured. Pure functions over recorded runs."""
