"""``ncubble validate``."""
