"""What parts of a kernel cost, measured by leaving them out."""
