"""Nsight Compute as a program: its command line, its messages, its failures."""
