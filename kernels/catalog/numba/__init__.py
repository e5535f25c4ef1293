"""Kernels written in Numba-CUDA."""
