"""Verdicts of the gate: metrics by the noise model, and gate rules."""
