"""Reads machine code: what SASS instructions do, and which of them serve a copy."""
