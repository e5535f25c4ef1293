"""Causes and diseases of a launch, ranked, with fixes and gains: the verdict."""
