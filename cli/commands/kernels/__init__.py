"""``ncubble kernels``, ``verify`` and ``bench``."""
