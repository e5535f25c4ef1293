"""Causes and gains scored against planted and labelled launches."""
