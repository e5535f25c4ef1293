"""The dataset of measured launches: what each loses, found by taking parts of its machine code away."""
