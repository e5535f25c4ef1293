"""``ncubble augment``."""
