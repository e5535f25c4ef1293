"""Building blocks of all pages: components and figures."""
