"""``ncubble mcp``: recorded launches, answered to agents."""
