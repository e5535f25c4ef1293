"""Products and attention on 8-bit floats (e4m3)."""
