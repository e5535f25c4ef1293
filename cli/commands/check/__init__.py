"""``ncubble check`` and ``ncubble baseline``."""
