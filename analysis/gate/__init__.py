"""The gate: repeats of a kernel against its baseline."""
