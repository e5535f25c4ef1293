"""What to change about a kernel: predicted from a report, or measured by ``ncubble try``."""
