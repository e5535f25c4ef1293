"""Many launches at once: as columns, as rows of groups, and what they lose together."""
