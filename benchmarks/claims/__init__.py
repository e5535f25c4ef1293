"""The claims of the five seed documents: what they say, how each is measured, and what follows from
the figures."""
