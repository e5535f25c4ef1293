"""Kernels with one planted disease each, and the same kernels without."""
