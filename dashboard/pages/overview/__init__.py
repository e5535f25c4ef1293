"""All launches in one table."""
