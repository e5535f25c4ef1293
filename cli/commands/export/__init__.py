"""``ncubble export``."""
