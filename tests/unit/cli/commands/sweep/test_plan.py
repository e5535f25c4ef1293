"""The plan of a sweep: axes as they are written, samples, what a kernel refuses, and what makes two
jobs the same."""

import dataclasses
import json
import shutil
from collections import Counter

import pytest

from ncubble.cli.commands.sweep import plan as sweep_plan
from ncubble.cli.main import main
from ncubble.errors import UsageError
from ncubble.kernels.build import code_digest
from ncubble.kernels.run.session import KernelRequest
from ncubble.profiling.sweeps.grid import Sampling, at, choose, parse_axes, size
from tests.helpers.sweep_runs import DATA, H200, TOOLS, planned


def points(*axes, method="grid", count=None, seed=0, take=lambda point: point):
    return [point for point, _ in choose(parse_axes(axes), Sampling.of(method, count, seed), take).taken]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("stages=1:6", "1 2 3 4 5 6"),
        ("stages=1:6:2", "1 3 5"),
        ("k=512:4096:x2", "512 1024 2048 4096"),
        ("k=500:4096:x3", "500 1500"),
        ("copy=async,plain", "async plain"),
        ("tile=64,1:3,64", "64 1 2 3"),
    ],
)
def test_an_axis_is_a_list_of_values_and_ranges_with_both_ends(text, values):
    (axis,) = parse_axes([text])
    assert " ".join(axis.values) == values


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["stages"], "is not name=values"),
        (["=1"], "is not name=values"),
        (["stages="], "is not name=values"),
        (["stages=6:1"], "has no values"),
        (["stages=1:6:0"], "has no values"),
        (["k=0:6:x2"], "has no values"),
        (["k=1:8:x1"], "has no values"),
        (["stages=1:b"], "not a range"),
        (["stages=1,,2"], "empty value"),
        (["stages=1:2", "stages=3"], "varied twice"),
        (["m=m=1"], "varied twice"),
        (["k=1:1000000000"], "use a larger step"),
    ],
)
def test_what_is_no_axis_is_refused_by_its_text(texts, says):
    with pytest.raises(UsageError, match=says):
        parse_axes(texts)


def test_names_joined_by_equals_share_their_value():
    assert points("m=n=k=64,128", "stages=1:2") == [
        {"m": m, "n": m, "k": m, "stages": stages} for m in ("64", "128") for stages in ("1", "2")
    ]


def test_no_axis_is_one_point():
    assert points() == [{}]


@pytest.mark.parametrize("method", ["random", "lhs"])
def test_samples_are_distinct_points_and_follow_their_seed(method):
    grid = ("a=1:20", "b=1:20")
    found = points(*grid, method=method, count=30, seed=4)
    assert len({tuple(point.items()) for point in found}) == 30
    assert found == points(*grid, method=method, count=30, seed=4)
    assert found != points(*grid, method=method, count=30, seed=5)


def test_a_latin_hypercube_hits_every_value_of_every_axis():
    found = points("a=1:16", "b=1:16", "c=1:4", method="lhs", count=16, seed=1)
    assert {point["a"] for point in found} == {point["b"] for point in found} == {str(n) for n in range(1, 17)}
    assert set(Counter(point["c"] for point in found).values()) == {4}


@pytest.mark.parametrize("method", ["random", "lhs"])
def test_refused_points_are_replaced_in_a_sample(method):
    def take(point):
        if int(point["a"]) % 2:
            raise UsageError("odd")

    chosen = choose(parse_axes(["a=1:10", "b=1:10"]), Sampling.of(method, 12, 0), take)
    assert len(chosen.taken) == 12
    assert all(int(point["a"]) % 2 == 0 for point, _ in chosen.taken)
    assert {reason for _, reason in chosen.refused} == {"odd"}


def test_a_sample_larger_than_what_is_allowed_says_so():
    chosen = choose(parse_axes(["a=1:3"]), Sampling.of("random", 9, 0), lambda point: point)
    assert len(chosen.taken) == 3
    chosen = choose(parse_axes(["a=1:3"]), Sampling.of("lhs", 3, 0), _only_two)
    assert [point["a"] for point, _ in chosen.taken] == ["2"]
    assert "only 1 allowed points were found" in chosen.notes[0]


def _only_two(point):
    if point["a"] != "2":
        raise UsageError("not 2")


def test_a_grid_too_large_to_list_can_be_sampled():
    axes = ("a=1:1000", "b=1:1000", "c=1:1000")
    assert size(parse_axes(axes)) == 10**9
    with pytest.raises(UsageError, match="--sample"):
        points(*axes)
    assert len(points(*axes, method="random", count=5)) == len(points(*axes, method="lhs", count=5)) == 5


def test_points_are_numbered_with_the_last_axis_fastest():
    axes = parse_axes(["a=1:2", "b=x,y,z"])
    assert [tuple(at(axes, number).values()) for number in range(size(axes))] == [
        *(("1", "x"), ("1", "y"), ("1", "z"), ("2", "x"), ("2", "y"), ("2", "z"))
    ]


@pytest.mark.parametrize(("method", "count"), [("grid", 3), ("random", None), ("lhs", 0), ("sobol", 3)])
def test_a_sampling_that_makes_no_sense_is_refused(method, count):
    with pytest.raises(UsageError):
        Sampling.of(method, count, 0)


def test_axes_reach_parameters_and_dimensions():
    (job,) = planned("threads=128", "n=1000").jobs
    assert (job.about["parameters"], job.about["shape"]) == ({"threads": 128}, {"n": 1000})
    assert job.order["shape"] == "n=1000"
    assert job.point == {"threads": "128", "n": "1000"}
    assert job.folder("0f").startswith("saxpy-threads128-n1000-0f")


@pytest.mark.parametrize(
    ("axes", "more", "says"),
    [
        (["tile=1"], {}, "no parameter or dimension of this name"),
        (["threads=128"], {"parameters": ["threads=256"]}, "fixed by -p"),
        (["n=1,2"], {"shape": "n=3"}, "fixed by --shape"),
        (["threads=1,2"], {}, "rejects all 2 combinations"),
        (["n=4"], {"sets": ["nonsense"]}, "unknown metric set"),
        (["n=many"], {}, "rejects all"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_before_anything_runs(axes, more, says):
    with pytest.raises(UsageError, match=says):
        planned(*axes, **more)


def test_combinations_that_the_kernel_refuses_are_listed_with_the_reason():
    found = planned("threads=100,128", "n=64,128")
    assert len(found.jobs) == 2
    assert [point["threads"] for point, _ in found.refused] == ["100", "100"]
    assert "threads=100 is not allowed" in found.refused[0][1]


def key(machine=H200, **more):
    (job,) = planned("n=1000", **more).jobs
    return job.key(machine, TOOLS)


def test_the_key_follows_what_is_measured_and_on_what():
    other_gpu = dataclasses.replace(H200, device="NVIDIA H100")
    other_ncu = dataclasses.replace(H200, tools={"ncu": "2026.1", "nvcc": "13.0"})
    same_kind = dataclasses.replace(H200, uuid="GPU-2", host="elsewhere", driver="590")
    asked = [{}, {"parameters": ["threads=128"]}, {"sets": ["tensor"]}, {"repeat": 2}, {"controls": ("base", "all")}]
    keys = [key(**one) for one in asked] + [key(other_gpu), key(other_ncu)]
    assert len(set(keys)) == len(keys)
    assert key(same_kind) == key()


def test_the_key_follows_the_code_and_not_the_place(tmp_path):
    def digest(folder):
        return code_digest(KernelRequest("saxpy", catalog=folder).case())

    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        shutil.copytree(DATA / "catalog", folder)
    assert digest(one) == digest(other)
    (other / "common.cuh").write_text("#define TWICE 2\n")
    source = other / "saxpy.cu"
    source.write_text(f'#include "common.cuh"\n{source.read_text()}')
    changed = digest(other)
    assert changed != digest(one)
    (other / "common.cuh").write_text("#define TWICE 3\n")
    assert digest(other) not in (changed, digest(one))
    spec = one / "saxpy.py"
    spec.write_text(spec.read_text().replace('(parameters["threads"],)', '(parameters["threads"] // 2,)'))
    assert digest(one) != digest(DATA / "catalog")


def test_a_numba_kernel_is_known_by_what_it_imports():
    case = KernelRequest("numba_async_pipeline").case()
    from ncubble.kernels.build import _sources

    assert {"numba_async_pipeline.py", "numba_cp_async.py"} <= {path.name for path in _sources(case)}


def test_a_dry_run_shows_the_plan_without_a_gpu(capsys):
    line = ["sweep", "tensor_core_gemm", "-g", "stages=1:8", "-g", "m=n=k=4096,8192", "--dry-run"]
    with pytest.raises(SystemExit) as ended:
        main(line)
    output = capsys.readouterr()
    assert not ended.value.code
    assert len(output.out.splitlines()) == 12
    assert "skipped stages=7 m=4096 n=4096 k=4096: parameter stages=7 is not allowed" in output.err
    with pytest.raises(SystemExit):
        main([*line, "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert (len(plan["jobs"]), len(plan["refused"])) == (12, 4)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--gpus", "0,1", "--scheduler", "tcp://x:1"], "use only one of them"),
        (["--gpus", "0,1,0"], "--gpus names 0 twice"),
        (["--gpus", "0,"], "an entry is empty"),
        (["--timeout", "0"], "--timeout 0"),
        (["--sample", "4"], "--method grid"),
        (["--clock-control", "boost"], "--clock-control"),
    ],
)
def test_options_that_contradict_each_other_end_with_2(capsys, more, says):
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "tensor_core_gemm", "-g", "stages=1:2", *more])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_planning_a_thousand_points_is_quick():
    assert len(planned("n=1:1000").jobs) == 1000
    assert sweep_plan.TOOLS["numba"] == ("ncu", "nvcc", "numba")
