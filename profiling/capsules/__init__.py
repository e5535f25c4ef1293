"""Single launches that were cut out of a program, and can be launched again without it."""
