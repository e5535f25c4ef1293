"""The bubble account scored against ablations."""
