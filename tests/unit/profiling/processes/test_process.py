"""Which programs can be started, and the fix for those that cannot."""

from pathlib import Path

import pytest

from ncubble.errors import UsageError
from ncubble.profiling.processes import require_program, stream


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "no program is named\n  remedy: write it and its arguments after --"),
        (["no-such"], "no such program: 'no-such'\n  remedy: check its name and path"),
        (["./train.py", "-x"], "'./train.py': it is not executable\n  remedy: .*python ./train.py"),
        (["train.py"], "no such program on PATH: 'train.py'\n  remedy: write ./train.py, or .*python train.py"),
        (["."], "no such program on PATH: '.'"),
    ],
)
def test_a_program_that_cannot_be_started_has_a_fix(
    argv: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("pass\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says):
        require_program(argv)


def test_a_program_that_is_there_may_start() -> None:
    require_program(["sh", "-c", "true"])
    with pytest.raises(UsageError, match="no such program: 'gone'"):
        stream(["gone"], {}, lambda stream, text: None)
