"""ncubble: finds, explains and guards against pipeline bubbles in GPU kernels."""

__version__ = "0.1.0"
