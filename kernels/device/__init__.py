"""One GPU through cuda-core, and how many CTAs fit on its SMs."""
