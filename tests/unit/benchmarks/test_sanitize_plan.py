"""The cases for compute-sanitizer: every kernel, launchable, small."""

from __future__ import annotations

from benchmarks.kernels.plan import SANITIZED
from ncubble.kernels.catalog.catalog import SPECS
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.run.request import parse_parameters, parse_shape
from ncubble.kernels.spec.case import Case, make_case


def case_of(kernel: str, arguments: str) -> Case:
    words = arguments.split()
    options = list(zip(words[::2], words[1::2], strict=True))
    assert {option for option, _ in options} <= {"-p", "--shape"}
    parameters = parse_parameters([value for option, value in options if option == "-p"])
    return make_case(find_spec(kernel), parameters, parse_shape([v for option, v in options if option == "--shape"]))


def test_every_kernel_of_the_catalog_is_checked() -> None:
    assert {kernel for kernel, _ in SANITIZED} == {spec.name for spec in SPECS}
    assert len(set(SANITIZED)) == len(SANITIZED)


def test_every_case_can_be_launched_verified_and_is_small() -> None:
    for entry in SANITIZED:
        case = case_of(*entry)
        assert case.unverified is None, entry
        assert sum(case.nbytes(array) for array in case.spec.arrays) < 2**24, entry
