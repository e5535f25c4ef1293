"""The kernels that ship with ncubble, and how specs are found by name."""
