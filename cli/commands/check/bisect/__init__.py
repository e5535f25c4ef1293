"""``ncubble check --bisect``: which commit, or which compiler, made a kernel slower."""
