"""Records the GPU activity of a whole program through CUPTI."""
