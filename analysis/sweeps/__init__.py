"""Sweeps: launches that differ in one parameter alone, and depths that are predicted from one of
them."""
