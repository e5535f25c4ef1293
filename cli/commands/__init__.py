"""One module per command; groups of commands are folders."""
