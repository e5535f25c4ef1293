"""Gates of a kernel with two paths: checked, shown, kept and compared."""
