"""A search over the parameters of a kernel: what there is to choose, times, and the next choice."""
