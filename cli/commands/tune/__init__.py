"""``ncubble tune``."""
