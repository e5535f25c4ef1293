"""``ncubble trend``."""
