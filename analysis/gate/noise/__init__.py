"""The noise model of the gate, and the metrics that it tests."""
