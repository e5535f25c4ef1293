"""``ncubble advise``."""
