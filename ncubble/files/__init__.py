"""Files that several processes share: locks, small records in the cache."""
