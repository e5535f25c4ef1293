"""Source and SASS of one launch."""
