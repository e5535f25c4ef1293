"""Short names tell apart all kernels of a program."""

from collections import Counter

import pytest

from ncubble.analysis.program.kernels import ProgramKernel, kernel_names
from ncubble.analysis.program.record import open_program
from tests.helpers.recorded_programs import RECORDINGS


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["void k<4>(int)"], ["k"]),
        (["void k<4>(int)", "void other<4>(int)"], ["k", "other"]),
        (["void gemm<128, 64>(f)", "void gemm<64, 128>(f)"], ["gemm<128, 64>", "gemm<64, 128>"]),
        (["void gemm<128, 64, 3>(f)", "void gemm<64, 64, 3>(f)"], ["gemm<128>", "gemm<64>"]),
        (["void t::k<t::One<2>, t::Add>(f)", "void t::k<t::Two, t::Add>(f)"], ["k<One>", "k<Two>"]),
        (["void k<A, B>(f)", "void k<A, C>(f)", "void k<D, B>(f)"], ["k<A, B>", "k<C>", "k<D>"]),
        (["k<(anonymous namespace)::A>()", "k<f(x)::{lambda(int)#1}, 2>()"], ["k<A>", "k<lambda>"]),
    ],
)
def test_template_arguments_are_named_where_they_differ(names: list[str], expected: list[str]) -> None:
    kernels = [ProgramKernel(name, name, "1,1,1", "32,1,1") for name in names]
    assert list(kernel_names(kernels).values()) == expected


def test_block_and_shared_memory_are_named_where_only_they_differ() -> None:
    of = [("8,1,1", "32,1,1", 0), ("8,1,1", "64,1,1", 0), ("8,1,1", "64,1,1", 1024), ("9,1,1", "32,1,1", 0)]
    kernels = [ProgramKernel("void k(int)", "_Z1ki", *geometry) for geometry in of]
    assert list(kernel_names(kernels).values()) == [
        "k block 32,1,1",
        "k block 64,1,1 shared 0 B",
        "k block 64,1,1 shared 1024 B",
        "k",
    ]


def test_no_two_kernels_of_a_recorded_training_have_one_name() -> None:
    (account,) = open_program(RECORDINGS / "h100-program/train").accounts
    titles = Counter(account.title(one.kernel) for one in account.kernels)
    assert len(titles) == len(account.kernels) == 42
    assert "multi_tensor_apply_kernel<BinaryOpScalarFunctor, multiplies> grid 49,1,1" in titles
    assert "multi_tensor_apply_kernel<Sqrt> grid 49,1,1" in titles
    assert max(map(len, titles)) < 120
