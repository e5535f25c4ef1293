"""What to change in a launch, and what it gains: the verdict."""
