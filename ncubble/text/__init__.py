"""Human-readable text: numbers with units, names, Markdown."""
