"""Metric sets, and how chips and versions of ncu name metrics."""
