"""Lanes of warps and streams."""
