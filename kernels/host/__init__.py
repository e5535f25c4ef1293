"""Programs on the host that drive streams, events and memory pools."""
