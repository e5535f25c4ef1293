"""The cases for compute-sanitizer: every kernel, launchable, small."""

from __future__ import annotations

from benchmarks.kernels.plan import SANITIZED
from benchmarks.kernels.sanitize import page, with_findings
from benchmarks.validation.planted import PLANTED
from ncubble.kernels.catalog.registry import catalog, find_spec
from ncubble.kernels.run.session import parse_parameters, parse_shape
from ncubble.kernels.spec.case import Case, make_case


def case_of(kernel: str, arguments: str) -> Case:
    words = arguments.split()
    options = list(zip(words[::2], words[1::2], strict=True))
    assert {option for option, _ in options} <= {"-p", "--shape"}
    parameters = parse_parameters([value for option, value in options if option == "-p"])
    return make_case(
        find_spec(kernel, PLANTED), parameters, parse_shape([v for option, v in options if option == "--shape"])
    )


def test_every_kernel_of_the_catalog_is_checked() -> None:
    assert {kernel for kernel, _ in SANITIZED} == {spec.name for spec in catalog(PLANTED).values()}
    assert len(set(SANITIZED)) == len(SANITIZED)


def test_every_case_can_be_launched_verified_and_is_small() -> None:
    for entry in SANITIZED:
        case = case_of(*entry)
        assert case.unverified is None, entry
        assert sum(case.nbytes(array) for array in case.spec.arrays) < 2**24, entry


def test_findings_of_another_gpu_join_those_that_are_kept_and_name_it() -> None:
    kernel, arguments = SANITIZED[0]
    old = {"kernel": kernel, "arguments": arguments, "tool": "memcheck", "clean": True, "summary": "0 errors"}
    again = old | {"clean": False, "summary": "1 error", "device": "NVIDIA H100"}
    gone = old | {"arguments": "--shape n=1"}
    assert with_findings([old, gone], [again]) == [again]
    other = again | {"tool": "racecheck", "summary": "0 hazards"}
    text = page({"device": "NVIDIA H200", "sanitizer": "1", "findings": [again, other]})
    assert "2 of them not clean" in text and "`: 1 error" in text and "`: 0 hazards" in text
    assert f"| `{kernel}` | `{arguments}` \\* |" in text and "\\*: NVIDIA H100;" in text
