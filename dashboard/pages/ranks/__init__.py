"""The same launch on every rank of a program."""
