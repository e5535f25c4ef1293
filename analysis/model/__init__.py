"""The model of a launch: its pipeline, what other depths and fixes would give."""
