"""Search for the change that made a kernel slower."""
