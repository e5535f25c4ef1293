"""Settings and fixtures of the unit tests."""

import shutil

import pytest
from hypothesis import settings

from ncubble.errors import MeasurementError
from ncubble.kernels.build import find_tool
from ncubble.profiling.recorders.injection import find_cupti

# How long an example takes tells of the load of the machine.
settings.register_profile("ncubble", deadline=None)
settings.load_profile("ncubble")


@pytest.fixture(scope="session")
def compiler() -> None:
    """nvcc, nvdisasm and the C++ compiler that nvcc needs; skips where one is missing."""
    if shutil.which("g++") is None:
        pytest.skip("nvcc needs g++, which is missing")
    for tool in ("nvcc", "nvdisasm"):
        try:
            find_tool(tool)
        except MeasurementError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session")
def cupti_compiler() -> list[str]:
    """The command that compiles C++ which includes CUPTI; skips where g++ or CUPTI is missing."""
    if shutil.which("g++") is None:
        pytest.skip("g++ is missing")
    try:
        found = find_cupti()
    except MeasurementError as error:
        pytest.skip(str(error))
    return ["g++", "-std=c++17", f"-I{found.headers}", f"-I{found.cuda_headers}"]
