"""ncubble: finds, explains and guards against pipeline bubbles in GPU kernels."""

__version__ = "0.2.0"
