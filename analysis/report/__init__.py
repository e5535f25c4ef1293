"""Reports as tidy frames: container, native reader in worker processes, cache."""
