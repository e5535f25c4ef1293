"""Compiles kernels, and looks at the machine code."""
