"""Launches that the analysis was not tuned against, and what bounds them, by experiment."""
