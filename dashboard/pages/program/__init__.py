"""Where the time of a whole program goes."""
