"""``ncubble trace``."""
