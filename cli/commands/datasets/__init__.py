"""``ncubble ingest`` and ``ncubble query``."""
