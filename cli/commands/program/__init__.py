"""The whole-program account at the command line."""
