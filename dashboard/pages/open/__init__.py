"""Reports added from the browser."""
