"""Kernels with the in-kernel probe switched on."""
