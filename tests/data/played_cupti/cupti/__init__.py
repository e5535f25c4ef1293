"""A stand-in for cupti-python: what ``ncubble.profiling.streams.cupti`` calls, playing a few
records at each flush."""
