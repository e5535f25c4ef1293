"""Traces of PyTorch's profiler (Kineto), and the accounts of profiled launches in them."""
