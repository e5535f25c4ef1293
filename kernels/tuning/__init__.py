"""Search over the parameters of a kernel: the space, timings, and the next choice."""
