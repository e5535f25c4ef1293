"""What only exported files use; the app does not serve it."""
