"""Two revisions of a source tree, measured in turns."""
