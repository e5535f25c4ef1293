"""One launch."""
