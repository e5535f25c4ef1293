"""Runs: a report with the manifest that says how it came to be, and the session that makes one."""
