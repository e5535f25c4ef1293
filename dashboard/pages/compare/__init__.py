"""Launches side by side."""
