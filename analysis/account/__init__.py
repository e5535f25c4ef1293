"""The bubble account: where the cycles of a launch went, in parts that sum to 100 %."""
