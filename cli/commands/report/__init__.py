"""``ncubble report``."""
