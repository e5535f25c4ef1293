"""The catalog: specs that ship with ncubble, and those of a folder of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncubble.errors import UsageError
from ncubble.kernels.catalog.registry import SPECS, catalog, find_spec, readable_specs
from ncubble.kernels.spec.case import make_case

OWN = Path(__file__).parents[3] / "data" / "catalog"


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_every_spec_of_the_catalog_makes_a_case_and_has_its_source(spec):
    case = make_case(spec)
    assert spec.entry in spec.path.read_text(encoding="utf-8")
    assert case.bytes == sum(case.nbytes(array) for array in spec.arrays)
    assert spec.demonstrates and spec.idea


def test_an_unknown_kernel_suggests_a_near_one():
    with pytest.raises(UsageError) as refused:
        find_spec("tensor_cor_gemm")
    assert "tensor_core_gemm" in refused.value.remedy


def test_own_specs_come_after_the_shipped_ones_and_find_their_sources():
    assert list(catalog()) == [spec.name for spec in SPECS]
    found = catalog(OWN)
    assert list(found)[: len(SPECS)] == list(catalog())
    assert found["saxpy"].path == OWN / "saxpy.cu" and found["numba_scale"].language == "numba"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# KernelSpec\nSPEC = 1\n", "SPEC is not a KernelSpec"),
        ("# KernelSpec\nraise ValueError('broken')\n", "failed to load: ValueError: broken"),
        ("# KernelSpec\nimport no_such_module_xyz\n", "no_such_module_xyz"),
        ("# KernelSpec\nSPECS = 5\n", "SPEC is not a KernelSpec"),
        ("# KernelSpec\nimport sys\nsys.exit(0)\n", "failed to load: SystemExit: 0"),
        ("x = 1\n", "no spec found"),
        ((OWN / "saxpy.py").read_text(), r"source 'saxpy.cu' of 'saxpy' is missing"),
        (
            (OWN / "saxpy.py").read_text().replace('"saxpy.cu"', '"mine.cu"').replace('"saxpy"', '"tiled_matmul"'),
            "mine.py: the shipped catalog has a kernel named 'tiled_matmul', too",
        ),
        (
            (OWN / "saxpy.py").read_text().replace('"saxpy.cu"', '"mine.py"'),
            "source 'mine.py' cannot be language='cuda'",
        ),
        (None, "no such folder"),
    ],
)
def test_a_bad_folder_is_refused_with_the_reason(tmp_path, text, complaint):
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
        (tmp_path / "mine.cu").touch()
    with pytest.raises(UsageError, match=complaint):
        catalog(tmp_path / "nowhere" if text is None else tmp_path)


def test_two_specs_of_one_name_in_a_folder_are_refused_with_their_files(tmp_path):
    for name in ("a.py", "b.py", "saxpy.cu"):
        (tmp_path / name).write_text((OWN / f"saxpy{Path(name).suffix}").read_text())
    with pytest.raises(UsageError, match=r"b\.py: a\.py has a kernel named 'saxpy', too"):
        catalog(tmp_path)
    specs, failures = readable_specs(tmp_path)
    assert [spec.name for spec in specs] == ["saxpy"] and [path.name for path, _ in failures] == ["b.py"]


def test_what_editors_leave_beside_a_spec_is_passed_over(tmp_path):
    for name in ("saxpy.py", "saxpy.cu"):
        (tmp_path / name).write_text((OWN / name).read_text())
    (tmp_path / ".#saxpy.py").symlink_to("user@host.1234")
    (tmp_path / "._saxpy.py").write_bytes(b"\0\5\x16\7KernelSpec")
    (tmp_path / "folder.py").mkdir()
    assert "saxpy" in catalog(tmp_path)
