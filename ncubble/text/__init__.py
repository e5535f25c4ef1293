"""Text as people read it: numbers with units, names, Markdown."""
