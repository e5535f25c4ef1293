"""The planted mistakes of benchmarks/regressions apply to the kernels as they are, and what grew is
told rightly."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.regressions import plan, table
from benchmarks.regressions.__main__ import turns
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


def test_every_mistake_applies_to_a_kernel_that_can_be_launched_and_names_lines_of_the_changed_source() -> None:
    found = plan.regressions()
    assert len(found) >= 12
    for one in found:
        make_case(find_spec(one.kernel), one.parameters, one.shape)
        changed = plan.changed(one.edits, one.name, plan.KERNELS)
        assert any(text != (plan.KERNELS / file).read_text() for file, text in changed.items()), one.name
        assert 1 <= len(one.parts) <= 2 and set(one.parts) <= set(PARTS), one.name
        texts = {Path(file).name: text for file, text in changed.items()}
        for place in one.where:
            own = [path for path in (plan.KERNELS / "cuda" / place.file, plan.KERNELS / place.file) if path.is_file()]
            if own:  # others are headers of the toolkit
                assert place.lines(texts.get(place.file) or own[0].read_text()), f"{one.name}: {place}"


def test_a_source_that_changed_is_named_and_not_patched(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("one\ntwo\ntwo\n")
    for old, times in (("three", 0), ("two", 2)):
        with pytest.raises(UsageError, match=rf"mine: kernels/a\.cu holds {times} times, not once.*'{old}'"):
            plan.changed([plan.Edit("a.cu", old, "four")], "mine", tmp_path)
    assert plan.changed([plan.Edit("a.cu", "one", "1"), plan.Edit("a.cu", "1", "I")], "mine", tmp_path) == {
        "a.cu": "I\ntwo\ntwo\n"
    }


def test_a_file_with_a_member_too_few_or_too_many_is_refused(tmp_path: Path) -> None:
    text = 'kernel = "k"\nparts = []\nwhere = []\nedits = []\n'
    for name, more in (("few", ""), ("many", 'broken = "b"\ncolour = 1\n')):
        (tmp_path / f"{name}.toml").write_text(text + more)
        with pytest.raises(UsageError, match=f"{name}.toml"):
            plan.load(tmp_path / f"{name}.toml")


def test_a_process_takes_the_changed_kernels_and_all_else_as_it_is(tmp_path: Path) -> None:
    (one,) = plan.regressions("^one_cta_per_sm$")
    folder = plan.make_tree(tmp_path / "changed", one)
    program = (
        "import ncubble.profiling as p; from ncubble.kernels.run.session import KernelRequest;"
        "case = KernelRequest('attention_fwd', {'path': 'cp_async'}).case();"
        "print(case.smem, case.spec.path, p.__path__[0])"
    )
    argv = [sys.executable, "-P", "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=plan.environment(folder))
    smem, source, profiling = done.stdout.split()
    assert int(smem) == make_case(find_spec("attention_fwd"), {"path": "cp_async"}).smem + 32768
    assert Path(source).is_relative_to(folder)
    assert Path(profiling).resolve() == (plan.INSTALLED / "profiling").resolve()


def test_a_base_is_profiled_once_right_before_its_first_change() -> None:
    found = plan.regressions("^(one_stage_less|fence_in_the_loop|scalar_loads)$")
    case = "out/gemm_tma-stages3"
    assert [str(out) for _, out in turns(Path("out"), found)] == [
        f"{case}/base",
        f"{case}/fence_in_the_loop",
        f"{case}/one_stage_less",
        "out/softmax_online-pathregisters/base",
        "out/softmax_online-pathregisters/scalar_loads",
    ]


def test_a_line_is_right_within_three_lines_of_an_expected_one() -> None:
    sources = {"a.cu": "\n" * 9 + "wait();\n" + "\n" * 9, "b.cu": "wait();"}
    expected = table.expected_lines([plan.Place("a.cu", "wait()"), plan.Place("c.cu", "wait()")], sources)
    assert expected == {"a.cu": [10]}
    lines = [CodePlace("sync_wait", "a.cu", number, "", 1.0) for number in range(1, 20)]
    right = {place.line for place in lines if table.expected_at(place, expected)}
    assert right == {7, 8, 9, 10, 11, 12, 13}
    assert not table.expected_at(CodePlace("sync_wait", "b.cu", 10, "wait();", 1.0), expected)


def test_what_is_kept_of_a_run_is_judged_as_the_run_is() -> None:
    (one,) = plan.regressions("^wait_for_all_copies$")
    (of_run,), _ = collect(open_reports([table.FOLDER.parent / one.name])[0])
    before, after, _ = table.read(one, table.FOLDER)
    group = table.repeats_of(after)
    for metric in map(BY_NAME.get, after.metrics):
        counter = after.metrics[metric.name].counter
        assert group.sample(metric, counter) == of_run.sample(metric, counter)
    (kernel,) = check([group], [before], CheckOptions()).kernels
    assert (kernel.verdict, kernel.moved[0].part, kernel.moved[0].place.line) == ("regressed", "data_wait", 191)
    (again,) = record([group], after.recorded)
    assert replace(again, path=after.path, schema=after.schema) == after  # what was kept is of schema 2


def test_a_regression_that_was_not_measured_is_named() -> None:
    (one,) = plan.regressions("^raster_by_columns$")
    with pytest.raises(MeasurementError, match="of_tomorrow: not measured"):
        table.row(replace(one, name="of_tomorrow"), table.FOLDER)
