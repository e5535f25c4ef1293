"""``python -m tests.helpers.played_check ARGUMENTS``: ``ncubble check`` in a process of its own, on
a GPU that is played.

Launches have the noise that was recorded on an H200, and the speed in a file of the catalog. A
catalog with a file ``broken`` does not build; with ``NO_COUNTERS``, no GPU measures.
"""

import os
import sys
from pathlib import Path

import pytest

from ncubble.cli.main import main
from ncubble.errors import MeasurementError
from ncubble.kernels.run import other_tree
from ncubble.profiling.failures import CounterPermissionError
from tests.helpers.gate_frames import gemm
from tests.helpers.played_runs import RecordedPlayer


def describe(request, side, name):
    """What a side would launch, told in this process."""
    if (side.folder / "broken").exists():
        raise MeasurementError(f"{side.what}: nvcc says no", "fix it")
    facts = other_tree.describe([name, "--catalog", str(side.folder)])
    return facts["label"], facts["function"]


if __name__ == "__main__":
    patch = pytest.MonkeyPatch()
    patch.setattr("ncubble.api.measuring.describe_side", describe)
    # Other launches for every commit, and the same in every run of the test.
    seed = sum((Path.cwd() / "notes").read_bytes())
    player = RecordedPlayer(gemm(), seed=seed).install(patch)
    if os.environ.get("NO_COUNTERS"):
        player.answers = {0: CounterPermissionError()}
    main(sys.argv[1:])
