"""Datasets of thousands of reports, and queries over them."""
