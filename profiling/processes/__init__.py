"""Child processes that leave nothing behind, and folders of unfinished work."""
