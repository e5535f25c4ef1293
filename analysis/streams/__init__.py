"""What copies and kernels of a program overlap, and why its SMs are idle between kernels."""
