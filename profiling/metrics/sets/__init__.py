"""Metric sets as TOML (package data)."""
