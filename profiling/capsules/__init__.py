"""Single launches recorded from a program, which can be replayed without it."""
