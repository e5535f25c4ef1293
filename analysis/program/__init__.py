"""Where the time of a whole program went: between its kernels, and inside them."""
