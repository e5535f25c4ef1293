"""Reads many reports into a dataset, in processes that may die."""
