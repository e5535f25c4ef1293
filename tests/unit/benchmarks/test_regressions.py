"""The planted mistakes of benchmarks/regressions apply to the kernels as they are, and what grew is
told rightly."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from ncubble.analysis.account.parts import PARTS
from ncubble.analysis.gate.accounts import CodePlace
from ncubble.analysis.gate.baseline import record
from ncubble.analysis.gate.check import check
from ncubble.analysis.gate.metrics import BY_NAME
from ncubble.analysis.gate.repeats import collect
from ncubble.analysis.gate.verdicts import CheckOptions
from ncubble.analysis.report.report import open_reports
from ncubble.errors import MeasurementError, UsageError
from ncubble.kernels.catalog.registry import find_spec
from ncubble.kernels.spec.case import make_case

Load = Callable[[str], ModuleType]


@pytest.fixture
def load() -> Load:
    return lambda name: importlib.import_module(f"benchmarks.regressions.{name}")


def test_every_mistake_applies_to_a_kernel_that_can_be_launched(load: Load) -> None:
    tree = load("tree")
    found = load("plan").regressions()
    assert len(found) >= 12
    for one in found:
        make_case(find_spec(one.kernel), one.parameters, one.shape)
        kernels = tree.room("kernels")
        texts = tree.changed(one.edits, one.name, kernels)
        assert any(text != (kernels / file).read_text() for file, text in texts.items()), one.name


def test_what_is_expected_names_parts_of_the_account_and_lines_of_the_changed_source(load: Load) -> None:
    tree = load("tree")
    for one in load("plan").regressions():
        assert 1 <= len(one.parts) <= 2, one.name
        assert set(one.parts) <= set(PARTS), one.name
        kernels = tree.room("kernels")
        texts = {Path(file).name: text for file, text in tree.changed(one.edits, one.name, kernels).items()}
        for place in one.where:
            own = [path for path in (kernels / "cuda" / place.file, kernels / place.file) if path.is_file()]
            if own:  # others are headers of the toolkit
                assert place.lines(texts.get(place.file) or own[0].read_text()), f"{one.name}: {place}"


def test_a_source_that_changed_is_named_and_not_patched(load: Load, tmp_path: Path) -> None:
    plan, tree = load("plan"), load("tree")
    (tmp_path / "a.cu").write_text("one\ntwo\ntwo\n")
    for old, times in (("three", 0), ("two", 2)):
        with pytest.raises(UsageError, match=rf"mine: kernels/a\.cu holds {times} times, not once.*'{old}'"):
            tree.changed([plan.Edit("a.cu", old, "four")], "mine", tmp_path)
    assert tree.changed([plan.Edit("a.cu", "one", "1"), plan.Edit("a.cu", "1", "I")], "mine", tmp_path) == {
        "a.cu": "I\ntwo\ntwo\n"
    }


def test_a_file_with_a_member_too_few_or_too_many_is_refused(load: Load, tmp_path: Path) -> None:
    text = 'kernel = "k"\nbroken = "b"\nparts = []\nwhere = []\nedits = []\n'
    for name, more in (("few", ""), ("many", "colour = 1\n[machine_code]\n")):
        (tmp_path / f"{name}.toml").write_text(text + more)
        with pytest.raises(UsageError, match=f"{name}.toml"):
            load("plan").load(tmp_path / f"{name}.toml")


def test_a_process_takes_the_changed_kernels_and_all_else_as_it_is(load: Load, tmp_path: Path) -> None:
    tree = load("tree")
    (one,) = load("plan").regressions("^one_cta_per_sm$")
    folder = tree.make_tree(tmp_path / "changed", one)
    program = (
        "import ncubble.profiling as p; from ncubble.kernels.run.session import KernelRequest;"
        "case = KernelRequest('attention_fwd', {'path': 'cp_async'}).case();"
        "print(case.smem, case.spec.path, p.__path__[0])"
    )
    argv = [sys.executable, "-P", "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=tree.environment(folder))
    smem, source, profiling = done.stdout.split()
    assert int(smem) == make_case(find_spec("attention_fwd"), {"path": "cp_async"}).smem + 32768
    assert Path(source).is_relative_to(folder)
    assert Path(profiling).resolve() == tree.room("profiling")


def test_a_base_is_profiled_once_right_before_its_first_change(load: Load, tmp_path: Path) -> None:
    found = load("plan").regressions("^(one_stage_less|fence_in_the_loop|scalar_loads)$")
    trees = {name: tmp_path / name for name in ("base", *(one.name for one in found))}
    jobs = [(tree.name, str(out)) for _, tree, out in load("__main__").turns(Path("out"), trees, found)]
    case = "out/gemm_tma-stages3"
    assert jobs == [
        ("base", f"{case}/base"),
        ("fence_in_the_loop", f"{case}/fence_in_the_loop"),
        ("one_stage_less", f"{case}/one_stage_less"),
        ("base", "out/softmax_online-pathregisters/base"),
        ("scalar_loads", "out/softmax_online-pathregisters/scalar_loads"),
    ]


def test_a_run_without_an_account_is_an_error(load: Load) -> None:
    kept, (one,) = load("kept"), load("plan").regressions("^one_stage_less$")
    before, _, _ = kept.read(one, kept.FOLDER)
    with pytest.raises(MeasurementError, match=r"gemm_tma.*: no account"):
        load("table").side_of(replace(before, account=None))


def test_a_line_is_right_within_three_lines_of_an_expected_one(load: Load) -> None:
    table, kept, plan = load("table"), load("kept"), load("plan")
    sources = {"a.cu": "\n" * 9 + "wait();\n" + "\n" * 9, "b.cu": "wait();"}
    expected = kept.expected_lines([plan.Place("a.cu", "wait()"), plan.Place("c.cu", "wait()")], sources)
    assert expected == {"a.cu": [10]}
    lines = [CodePlace("sync_wait", "a.cu", number, "", 1.0) for number in range(1, 20)]
    right = {place.line for place in lines if table.expected_at(place, expected)}
    assert right == {7, 8, 9, 10, 11, 12, 13}
    assert not table.expected_at(CodePlace("sync_wait", "b.cu", 10, "wait();", 1.0), expected)


def test_what_is_kept_of_a_run_is_judged_as_the_run_is(load: Load) -> None:
    kept, (one,) = load("kept"), load("plan").regressions("^wait_for_all_copies$")
    (of_run,), _ = collect(open_reports([kept.FOLDER.parent / one.name])[0])
    before, after, _ = kept.read(one, kept.FOLDER)
    group = kept.repeats_of(after)
    for metric in map(BY_NAME.get, after.metrics):
        counter = after.metrics[metric.name].counter
        assert group.sample(metric, counter) == of_run.sample(metric, counter)
    (kernel,) = check([group], [before], CheckOptions()).kernels
    assert (kernel.verdict, kernel.moved[0].part, kernel.moved[0].place.line) == ("regressed", "data_wait", 191)
    (again,) = record([group], after.recorded)
    assert replace(again, path=after.path, schema=after.schema) == after  # what was kept is of schema 2


def test_a_regression_that_was_not_measured_is_named(load: Load) -> None:
    kept, (one,) = load("kept"), load("plan").regressions("^raster_by_columns$")
    one = replace(one, name="of_tomorrow")
    for folder in (kept.FOLDER, kept.FOLDER.parent):
        with pytest.raises(MeasurementError, match=r"of_tomorrow: (not measured|no run)"):
            kept.read(one, folder)


def test_machine_code_is_compared_by_opcode_and_by_operands(load: Load) -> None:
    module = load("code")
    before = module.Code(("DEPBAR.LE SB0, 0x2", "HMMA R1, R2", "LDG.E R1"), 100, 0, 512)
    after = module.Code(("DEPBAR.LE SB0, 0x0", "HMMA R1, R2", "STL [R1], R2"), 96, 8, 512)
    assert module.differences(before, after) == {"registers": -4, "spill_B": 8, "LDG.E": -1, "STL": 1}
    (one,) = load("plan").regressions("^wait_for_all_copies$")
    assert module.broken_facts(one, before, after) == ["wait_for_all_copies: registers: -4, not +0"]
