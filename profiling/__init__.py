"""How it is measured: metric sets, ncu command lines, runs."""
