"""``ncubble mcp``: answers agents' questions about recorded launches."""
