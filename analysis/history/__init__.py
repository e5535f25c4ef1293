"""The history of checks, and changes that last."""
