"""``ncubble sweep``."""
