"""Names of the plugin and what its options say: light enough for sessions without a gated test."""

from __future__ import annotations

import os

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


def started(config: pytest.Config) -> float:
    """When this session began, in seconds since 1970."""
    return config.stash[STARTED]


def needs_gpu(config: pytest.Config) -> bool:
    """Whether a machine without a GPU fails gated tests: by the environment or ``--ncubble-required``, else the option
    for it, else the ini value."""
    if os.environ.get(REQUIRE) or config.getoption(REQUIRED):
        return True
    chosen = config.getoption("--ncubble-no-gpu") or config.getini("ncubble_no_gpu")
    return bool(chosen == "fail")
