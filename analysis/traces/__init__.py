"""What warps did when: dumps of the in-kernel probe as lanes."""
