"""A stand-in for cupti-python: what ``ncubble.profiling.stream_cupti`` calls, playing a few records at each flush."""
