"""Names of the plugin: light enough for sessions without a gated test."""

from __future__ import annotations

import pytest

MARKER = "tensor_util"
FIXTURE = "ncubble"
INNER = "ncubble-inner"
"""Name of the plugin that runs a gated test's body under ncu; with it, tests are not gated
again."""
REQUIRE = "NCUBBLE_REQUIRE_GPU"
REQUIRED = "--ncubble-required"
ALLOW_SUSPICIOUS = "--ncubble-allow-suspicious"
STARTED = pytest.StashKey[float]()
"""When a session began, in seconds since 1970."""
