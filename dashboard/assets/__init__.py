"""Static files of the dashboard (package data)."""
