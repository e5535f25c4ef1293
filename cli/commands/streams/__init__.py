"""``ncubble streams``."""
