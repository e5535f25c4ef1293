"""Launches that public libraries make, with settings that they do not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchmarks.changes import library, plan
from benchmarks.changes.library import Entry, Launch, Library


def parameter(name: str, constant: bool = True) -> SimpleNamespace:
    return SimpleNamespace(name=name, is_constexpr=constant, has_default=False)


class Jit:
    """Stands for Triton's ``JITFunction``: keeps what it is launched with."""

    def __init__(self, name: str, source: str = "for k in range(4):", **constants: int) -> None:
        self.fn, self.src, self.made = SimpleNamespace(__name__=name), source, list[Any]()
        self.arg_names = ["x", *constants]
        self.params = [parameter("x", False), *(parameter(key) for key in constants)]

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> str:
        self.made.append((args, kwargs))
        return "made"


@pytest.fixture
def jit(monkeypatch: pytest.MonkeyPatch) -> type[Jit]:
    module = ModuleType("triton.runtime.jit")
    fake = type("JITFunction", (Jit,), {})
    module.JITFunction = fake  # type: ignore[attr-defined]
    for name in ("triton", "triton.runtime"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", module)
    return fake


ENTRY = Entry("liger_norm", "norm", "norm_kernel", lambda module: module.norm)


def test_a_launch_gets_the_changed_settings_wherever_its_library_passes_them(jit: type[Jit]) -> None:
    kernel, other = jit("norm_kernel", BLOCK=0), jit("other_kernel", BLOCK=0)
    with library._instead(ENTRY, lambda launch: launch.run({"BLOCK": 64, "num_warps": 8})):
        other.run("x", 128, grid=(1,), warmup=False)
        assert kernel.run("x", 128, grid=(1,), warmup=False, num_warps=4) == "made"
    assert kernel.made == [(("x", 64), {"num_warps": 8})]
    assert other.made == [(("x", 128), {})]


@pytest.mark.parametrize("times", [0, 2])
def test_a_kernel_that_is_not_launched_once_is_refused(jit: type[Jit], times: int) -> None:
    kernel = jit("norm_kernel")
    with (
        pytest.raises(RuntimeError, match=r"liger_norm (does not launch|launches) norm_kernel"),
        library._instead(ENTRY, lambda launch: launch.run({})),
    ):
        for _ in range(times):
            kernel.run("x", grid=(1,), warmup=False)


def launched(grid: Any, source: str = "x", *listed: dict[str, int], **named: int) -> Launch:
    return Launch(Jit("norm_kernel", source, **named), dict(named), grid, list(listed), lambda change: None)


def test_a_bad_base_of_an_autotuned_kernel_is_another_of_its_configurations() -> None:
    listed = [{"BLOCK": 64, "num_warps": 4, "num_ctas": 1}, {"BLOCK": 32, "num_warps": 4, "num_ctas": 1}]
    assert plan.worse_launch("liger_norm", launched((1,), "x", *listed, BLOCK=64), 0) == {"BLOCK": 32}


def test_a_bad_base_has_another_tile_only_where_the_grid_follows_it() -> None:
    def drawn(grid: Any, source: str = "x") -> set[str]:
        named = {"BLOCK_M": 128, "BLOCK_N": 64, "WIDTH": 64}
        return {key for number in range(40) for key in plan.worse_launch("a", launched(grid, source, **named), number)}

    assert drawn((8, 8)) == {"num_warps"}
    assert drawn(lambda meta: (1024 // meta["BLOCK_M"],)) == {"num_warps", "BLOCK_M"}
    assert drawn((8, 8), "    for k in range(9):") == {"num_warps", "num_stages"}


def test_a_module_is_imported_without_what_its_library_needs_to_be_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "made" / "made_library" / "ops"
    folder.mkdir(parents=True)
    for place in (folder, folder.parent):
        (place / "__init__.py").write_text("import compiled_extension")
    (folder / "norm.py").write_text(
        "from made_extension.utils import decorated, is_hip, version\n"
        "@decorated\ndef norm():\n    return 'hip' if is_hip() else version\n"
    )
    made = Library("someone/made@1", "", "made_library", absent=("made_extension",), constants={"version": "1.0"})
    monkeypatch.setenv("NCUBBLE_LIBRARIES", str(tmp_path))
    monkeypatch.setitem(library.LIBRARIES, "made", made)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    assert library.module("made", "ops.norm").norm() == "1.0"
