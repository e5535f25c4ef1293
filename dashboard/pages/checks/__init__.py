"""The history of checks."""
