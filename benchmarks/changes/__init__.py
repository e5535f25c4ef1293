"""Triton kernels that are launched again with other meta-parameters, to measure what a change does."""
