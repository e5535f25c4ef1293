"""Sections of the kernel page."""
