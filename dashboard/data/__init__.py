"""The reports that the dashboard shows."""
