"""Figures of the kernel page."""
