"""Bubble accounts as the gate compares them."""
