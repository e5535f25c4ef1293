"""Launches side by side, and ranks of one program."""
