"""``ncubble ablate``."""
