"""Details of one launch beside its account: tracks over time, idle bands, stall classes, columns of
its code."""
