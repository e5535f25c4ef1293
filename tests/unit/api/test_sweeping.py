"""Sweeps: axes as they are written, samples, what a kernel refuses, what makes two jobs the same,
and the command, whose jobs ``tests/data/stub_sweep.py`` plays."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from ncubble.api import sweeping
from ncubble.cli.main import main
from ncubble.errors import UsageError
from ncubble.kernels.build import code_digest
from ncubble.kernels.run.session import KernelRequest
from ncubble.profiling.sweeps.grid import choose, parse_axes
from ncubble.profiling.sweeps.store import Store
from tests.helpers.sweep_runs import CHILD, DATA, H200, TOOLS, Stub, jobs, planned, run


def points(*axes, sample=None, take=lambda point: point):
    return [point for point, _ in choose(parse_axes(axes), sample, take)[0]]


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


def test_points_are_in_the_order_of_the_grid_with_the_last_axis_fastest():
    assert [tuple(point.values()) for point in points("a=1:2", "b=x,y,z")] == [
        *(("1", "x"), ("1", "y"), ("1", "z"), ("2", "x"), ("2", "y"), ("2", "z"))
    ]


def test_a_sample_is_of_distinct_points_in_order_the_same_each_time():
    found = points("a=1:20", "b=1:20", sample=30)
    assert len({tuple(point.items()) for point in found}) == 30
    assert found == points("a=1:20", "b=1:20", sample=30)
    assert found == [point for point in points("a=1:20", "b=1:20") if point in found]


def test_refused_points_are_replaced_in_a_sample():
    def take(point):
        if int(point["a"]) % 2:
            raise UsageError("odd")

    taken, refused = choose(parse_axes(["a=1:10", "b=1:10"]), 12, take)
    assert len(taken) == 12
    assert all(int(point["a"]) % 2 == 0 for point, _ in taken)
    assert {reason for _, reason in refused} == {"odd"}
    assert len(choose(parse_axes(["a=1:3", "b=1:2"]), 9, take)[0]) == 2


def test_a_grid_too_large_to_list_can_be_sampled():
    axes = ("a=1:1000", "b=1:1000", "c=1:1000")
    with pytest.raises(UsageError, match=r"1000000000 points, at most 100000 are allowed\n.*--sample"):
        points(*axes)
    assert len(points(*axes, sample=5)) == 5


def test_axes_reach_parameters_and_dimensions():
    (job,) = planned("threads=128", "n=1000").jobs
    assert (job.about["parameters"], job.about["shape"]) == ({"threads": 128}, {"n": 1000})
    assert job.order["settings"][-1] == "n=1000"
    assert job.point == {"threads": "128", "n": "1000"}
    assert job.folder("0f").startswith("saxpy-threads128-n1000-0f")


@pytest.mark.parametrize(
    ("axes", "more", "says"),
    [
        (["tile=1"], {}, "no parameter or dimension"),
        (["threads=128"], {"settings": ["threads=256"]}, "fixed by -p"),
        (["n=1,2"], {"settings": ["n=3"]}, "fixed by -p"),
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
    asked = [{}, {"settings": ["threads=128"]}, {"sets": ["tensor"]}, {"repeat": 2}]
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
        (["--gpus", "0,1", "--scheduler", "tcp://x:1"], "names one model of GPU"),
        (["--gpus", "0,1,0"], "--gpus names 0 twice"),
        (["--gpus", "0,"], "an entry is empty"),
        (["--timeout", "0"], "--timeout 0"),
    ],
)
def test_options_that_contradict_each_other_end_with_2(capsys, more, says):
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "tensor_core_gemm", "-g", "stages=1:2", *more])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_planning_a_thousand_points_is_quick():
    assert len(planned("n=1:1000").jobs) == 1000
    assert sweeping.TOOLS["numba"] == ("ncu", "nvcc", "numba")


COMMAND = f"""
import sys
from ncubble.api import sweeping
sweeping.CHILD = {CHILD!r}
from ncubble.cli.main import main
main(sys.argv[1:])
"""


@pytest.fixture
def stub(tmp_path):
    before = dict(os.environ)
    yield Stub(tmp_path)
    os.environ.clear()
    os.environ.update(before)


def until(true, limit_s=60.0):
    deadline = time.monotonic() + limit_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


ARGUMENTS = ["sweep", "saxpy", "--catalog", str(DATA / "catalog"), "-g", "n=1,2", "--gpus", "GPU-1", "--out"]


@pytest.mark.parametrize("job", ["slow", "hang"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_command_that_is_cut_off_leaves_no_process_and_a_store_to_go_on_with(stub, tmp_path, number, code, job):
    """Also where the job's own ``finally`` does not know what it has started, as in ``hang``."""
    stub.behave({2: job})
    argv = [sys.executable, "-P", "-c", COMMAND, *ARGUMENTS, str(tmp_path / "store")]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert until(lambda: 2 in stub.begun)
        process.send_signal(number)
        said = process.stderr.read()
    assert process.returncode == code
    assert "2 jobs on 1 GPU (NVIDIA H200)" in said and "[1/2] saxpy n=1: ok" in said
    assert "the same command continues" in said or number == signal.SIGKILL
    assert until(lambda: not stub.left)
    stub.behave({})
    with Store(tmp_path / "store") as store:
        assert {record.state for record in run(store, jobs(1, 2)).values()} == {"ok"}
    assert stub.begun == [2]


def test_the_command_shows_what_the_store_holds_and_starts_nothing(stub, tmp_path, capsys, monkeypatch):
    with Store(tmp_path / "store") as store:
        run(store, jobs(1, 2))
    stub.behave({})
    monkeypatch.setattr(sweeping, "CHILD", CHILD)
    with pytest.raises(SystemExit) as ended:
        main([*ARGUMENTS, str(tmp_path / "store"), "--json"])
    result = json.loads(capsys.readouterr().out)
    assert not ended.value.code and stub.begun == []
    assert (result["held"], result["measured"], [job["state"] for job in result["jobs"]]) == (2, 0, ["ok"] * 2)
    assert result["jobs"][0]["launches"][0]["duration_ns"] > 0


def test_one_gpu_needs_no_cluster_and_two_are_refused_without_cryptography(stub, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sweeping, "CHILD", CHILD)
    for name in ("cryptography", "dask", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit) as ended:
        main([*ARGUMENTS, str(tmp_path / "store")])
    assert not ended.value.code and stub.begun == [1, 2]
    stub.behave({})
    with pytest.raises(SystemExit) as ended:
        main([*ARGUMENTS, str(tmp_path / "other"), "--gpus", "GPU-1,GPU-2"])
    assert ended.value.code == 3 and stub.begun == []
    said = capsys.readouterr().err
    assert "sweeps over several GPUs need Dask" in said and "[cluster]" in said


def test_jobs_that_failed_end_with_3_and_are_measured_again_when_asked(stub, tmp_path, capsys, monkeypatch):
    stub.behave({1: "refused"})
    monkeypatch.setattr(sweeping, "CHILD", CHILD)

    def command(*more):
        with pytest.raises(SystemExit) as ended:
            main([*ARGUMENTS, str(tmp_path / "store"), *more])
        return ended.value.code or 0, capsys.readouterr()

    code, said = command()
    assert code == 3
    assert "failed n=1: saxpy needs more shared memory" in said.out
    assert "1 of 2 measured; --retry-failed measures failed jobs again" in said.err
    stub.behave({})
    assert command()[0] == 3 and stub.begun == []
    assert command("--retry-failed")[0] == 0 and stub.begun == [1]


@pytest.mark.parametrize(("behaviour", "says"), [({}, "no driver"), ({1: "permission"}, "ERR_NVGPUCTRPERM")])
def test_a_machine_that_cannot_measure_ends_the_sweep_and_fails_no_job(
    stub, tmp_path, capsys, monkeypatch, behaviour, says
):
    stub.behave(behaviour)
    monkeypatch.setattr(sweeping, "CHILD", CHILD)
    if not behaviour:
        monkeypatch.setenv("STUB_WHY_NOT", "no driver")
    with pytest.raises(SystemExit) as ended:
        main([*ARGUMENTS, str(tmp_path / "store")])
    assert ended.value.code == 3
    assert says in capsys.readouterr().err
    assert not list((tmp_path / "store" / "journal").glob("*.json"))
