"""Launches, verifies and times kernels."""
