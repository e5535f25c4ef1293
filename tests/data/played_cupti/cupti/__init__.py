"""A stand-in for cupti-python: what ``ncubble.profiling.recorders.cupti`` calls, playing a few
records at each flush."""
