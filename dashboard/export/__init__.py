"""Pages as files without a server."""
