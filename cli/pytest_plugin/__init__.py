"""The pytest plugin (docs/pytest.md)."""
