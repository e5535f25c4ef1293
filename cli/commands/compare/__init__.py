"""``ncubble compare``."""
