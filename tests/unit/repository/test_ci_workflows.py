"""The workflows that the docs offer: they are YAML, ask for little, and every ncubble command in
them parses."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ncubble.analysis.gate.output import MARKDOWN_MARK
from ncubble.api.measuring import CheckRequest
from ncubble.cli import main

NAMES = ("gpu-gate.yml", "check-reports.yml", "gitlab-gate.yml")
GITHUB = NAMES[:2]
MEASURING = ("gpu-gate.yml", "gitlab-gate.yml")
GUARDS = ("--strict-markers", "--ncubble-required")


@pytest.fixture
def folder(repository: Path) -> Path:
    return repository / "docs" / "ci"


def loaded(folder: Path, name: str) -> dict[Any, Any]:
    found = yaml.safe_load((folder / name).read_text())
    assert isinstance(found, dict)
    return found


def scripts(value: Any) -> Iterator[str]:
    """Every shell text of a workflow: ``run`` of GitHub, ``script`` and ``before_script`` of
    GitLab."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("run", "script", "before_script"):
                yield from [inner] if isinstance(inner, str) else inner
            else:
                yield from scripts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from scripts(inner)


def commands(value: Any, program: str = "ncubble") -> list[list[str]]:
    """The words after each ``program`` that begins a command, or follows what waits for the GPU."""
    found = []
    for text in scripts(value):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if program in words and (words[0] in (program, "flock")):
                found.append(words[words.index(program) + 1 :])
    return found


@cache
def whole() -> Any:
    """The real command line; it takes a second to build."""
    return main.command_line()


def parsed(words: list[str]) -> click.Context:
    """The context in which the real command would run; raises for whatever it would refuse."""
    command, name = whole(), "ncubble"
    words = list(words)
    while hasattr(command, "commands"):
        name = words.pop(0)
        command = command.commands[name]
    return command.make_context(name, words)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_parses(folder: Path, name: str) -> None:
    found = commands(loaded(folder, name))
    assert any(words[0] == "check" for words in found)
    for words in found:
        parsed(words)


def test_what_does_not_parse_is_found() -> None:
    with pytest.raises(Exception, match="No such option"):  # typer has click's errors under names of its own
        parsed(["check", "--no-such-option"])


@pytest.mark.parametrize("name", NAMES)
def test_options_of_a_check_do_not_contradict_each_other(folder: Path, name: str) -> None:
    for words in commands(loaded(folder, name)):
        if words[0] != "check":
            continue
        given = parsed(words).params
        paths = tuple(map(Path, given["paths"] or ()))
        chosen = {name: given[name] for name in ("baseline", "profile", "out")}
        CheckRequest(paths, require_all=given["every"], **chosen).validate()
        assert not (given["history"] and given["no_history"])
        assert given["junit"] and given["markdown"]


def environments(value: Any) -> Iterator[dict[str, Any]]:
    """Every ``env`` of GitHub and ``variables`` of GitLab."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key in ("env", "variables"):
            yield inner
        else:
            yield from environments(inner)


@pytest.mark.parametrize("name", NAMES)
def test_gated_tests_cannot_pass_unmeasured(folder: Path, name: str) -> None:
    tests = commands(loaded(folder, name), "pytest")
    assert len(tests) == (name in MEASURING)
    assert all(guard in words for guard in GUARDS for words in tests)
    assert sum("pytest" in text for text in scripts(loaded(folder, name))) == (2 if tests else 0)  # installed, and run
    required = [variables.get("NCUBBLE_REQUIRE_GPU") for variables in environments(loaded(folder, name))]
    assert ("1" in required) == bool(tests)


@pytest.mark.parametrize(("options", "code", "says"), [
    (["-p", "no:ncubble"], 4, "unrecognized arguments: --ncubble-required"),
    ([], 1, "this machine has no GPU"),
])  # fmt: skip
@pytest.mark.parametrize("name", MEASURING)
def test_the_command_for_gated_tests_fails_without_plugin_or_gpu(
    folder: Path, tmp_path: Path, name: str, options: list[str], code: int, says: str
) -> None:
    (words,) = commands(loaded(folder, name), "pytest")
    (tmp_path / "test_it.py").write_text("import pytest\n@pytest.mark.tensor_util(min=50)\ndef test_gemm(): pass\n")
    words = ["-pno:dash", "-pno:hypothesispytest", *(word.replace("$GATED_TESTS", ".") for word in words), *options]
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "NCUBBLE_REQUIRE_GPU": ""}
    argv = [sys.executable, "-m", "pytest", *words]
    done = subprocess.run(argv, cwd=tmp_path, env=hidden, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, says in done.stdout + done.stderr) == (code, True)


def test_the_docs_name_the_guards_against_tests_that_measure_nothing(repository: Path) -> None:
    for name in ("ci.md", "pytest.md"):
        text = (repository / "docs" / name).read_text()
        assert [guard for guard in (*GUARDS, "NCUBBLE_REQUIRE_GPU=1", "required_plugins") if guard not in text] == []


@pytest.mark.parametrize("name", GITHUB)
def test_workflows_ask_for_little_and_end(folder: Path, name: str) -> None:
    whole = loaded(folder, name)
    assert set(whole["permissions"].values()) == {"read"}
    assert "pull_request_target" not in whole[True]  # YAML 1.1 reads "on" as true
    for job in whole["jobs"].values():
        assert job["timeout-minutes"] <= 60
        for step in job["steps"]:
            assert "${{ github.event" not in step.get("run", "") and "${{ inputs" not in step.get("run", "")


def test_the_gpu_machine_runs_no_code_of_strangers_and_writes_nothing(folder: Path) -> None:
    jobs = loaded(folder, "gpu-gate.yml")["jobs"]
    on_gpu = [job for job in jobs.values() if "self-hosted" in job["runs-on"]]
    assert len(on_gpu) == 1 and "permissions" not in on_gpu[0]
    assert "head.repo.full_name == github.repository" in on_gpu[0]["if"]
    checkout = next(step for step in on_gpu[0]["steps"] if "checkout" in step.get("uses", ""))
    assert checkout["with"]["persist-credentials"] is False


def test_a_lock_that_is_not_had_is_no_regression(folder: Path) -> None:
    waits = [text for text in scripts(loaded(folder, "gpu-gate.yml")) if "flock" in text]
    assert waits and all("--conflict-exit-code 3" in text for text in waits)


def test_the_comment_is_found_by_its_mark(folder: Path) -> None:
    text = next(text for text in scripts(loaded(folder, "gpu-gate.yml")) if "PATCH" in text)
    assert f'startswith("{MARKDOWN_MARK}")' in text


def test_the_docs_name_every_workflow(repository: Path, folder: Path) -> None:
    text = (repository / "docs" / "ci.md").read_text()
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)
    assert set(re.findall(r"\(ci/([\w.-]+)\)", text)) == set(NAMES)


ACTIONS = {"vendor.github-workflows": [".github/workflows/ci.yml", *(f"docs/ci/{name}" for name in GITHUB)]}
ACTIONS["vendor.github-actions"] = ["action.yml"]


@pytest.mark.parametrize(("schema", "files"), ACTIONS.items())
def test_workflows_and_the_action_follow_the_schemas_of_github(repository: Path, schema: str, files: list[str]) -> None:
    argv = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
    done = subprocess.run(argv, cwd=repository, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_project_tests_every_python_that_it_names(repository: Path) -> None:
    workflow = loaded(repository, ".github/workflows/ci.yml")
    pythons = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    named = set(re.findall(r"Python :: (3\.\d+)", (repository / "pyproject.toml").read_text()))
    assert set(pythons) == named and "make test" in list(scripts(workflow))


def step_of(repository: Path, name: str) -> dict[str, Any]:
    steps = loaded(repository, "action.yml")["runs"]["steps"]
    return dict(next(step for step in steps if step["name"] == name))


RUN = dict.fromkeys(("PATHS", "AGAINST", "BASELINE", "ARGUMENTS", "LOCK"), "") | {"PROFILE": "false"}


def action_check(repository: Path, folder: Path, program: str, **given: str) -> tuple[list[str], str]:
    """The script of the action as a runner starts it, with ``program`` in place of its ncubble: the
    lines of its output, and what it printed."""
    place = folder / "ncubble" / "bin" / "ncubble"
    place.parent.mkdir(parents=True)
    place.write_text(f"#!/bin/sh\n{program}\n")
    place.chmod(0o755)
    output = folder / "output"
    variables = {**RUN, **given, "OUT": str(folder / "gate"), "RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(output)}
    argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step_of(repository, "Check")["run"]]
    done = subprocess.run(
        argv, cwd=repository, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return output.read_text().splitlines(), done.stdout


@pytest.mark.parametrize(
    ("paths", "arguments", "code"),
    [("recordings/h200-gate/wait_for_all_copies", "", "1"), ("recordings/h200/gemm_ws", "--rule 'x y'", "2")],
)
def test_the_action_judges_keeps_all_outputs_and_tells_the_verdict(
    repository: Path, tmp_path: Path, paths: str, arguments: str, code: str
) -> None:
    ncubble = f"exec {sys.executable} -P -c 'from ncubble.cli.main import main; main()' \"$@\""
    lines, _ = action_check(repository, tmp_path, ncubble, PATHS=paths, ARGUMENTS=arguments)
    assert f"exit-code={code}" in lines
    assert ("sarif=true" in lines) == (code == "1") == (tmp_path / "gate" / "gate.sarif").is_file()
    verdict = ["bash", "-c", step_of(repository, "Verdict")["run"]]
    assert subprocess.run(verdict, env={**os.environ, "CODE": code}, check=False).returncode == int(code)


@pytest.mark.parametrize(
    ("given", "measuring", "rest"),
    [
        ({"PATHS": "a\nb c\n"}, [], ["a", "b", "c"]),
        ({"PROFILE": "true", "PATHS": "scale", "ARGUMENTS": "--rule x"}, ["--profile"], ["scale", "--rule", "x"]),
        ({"PROFILE": "all"}, ["--profile", "--all"], []),
        ({"AGAINST": "origin/main", "PATHS": "scale"}, ["--against", "origin/main"], ["scale"]),
        ({"AGAINST": "v1", "ARGUMENTS": "-- ./bench -x"}, ["--against", "v1"], ["--", "./bench", "-x"]),
        ({"PATHS": "a", "BASELINE": "b; rm -r x"}, ["--baseline", "b; rm -r x"], ["a"]),
    ],
)
def test_the_action_puts_its_own_options_before_those_of_a_program(
    repository: Path, tmp_path: Path, given: dict[str, str], measuring: list[str], rest: list[str]
) -> None:
    _, printed = action_check(repository, tmp_path, "printf '%s\\n' \"$@\"", **given)
    words = printed.splitlines()
    own = words[: len(words) - len(rest)]
    assert words[len(own) :] == rest
    assert own[0] == "check" and own[1] == "--junit" and "--github" in own
    assert [word for word in measuring if word not in own] == []
    measures = bool(measuring) and "--baseline" not in measuring
    assert (own[-2:] == ["--out", str(tmp_path / "gate" / "runs")]) == measures
    assert ("--baseline" in own) == ("BASELINE" in given)
    parsed(words)


def test_a_gpu_that_is_taken_is_no_regression_in_the_action(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "flock").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "bin" / "flock").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    lines, _ = action_check(repository, tmp_path, "exit 1", PROFILE="all", LOCK=str(tmp_path / "lock"), PATH=path)
    assert "exit-code=3" in lines


def test_what_the_action_cannot_write_changes_no_verdict(repository: Path) -> None:
    for name in ("Keep verdicts and runs", "Upload SARIF", "Comment"):
        assert step_of(repository, name)["continue-on-error"] is True
    assert step_of(repository, "Verdict")["if"] == "always()"


def test_no_input_of_the_action_is_pasted_into_a_script(repository: Path) -> None:
    for text in scripts(loaded(repository, "action.yml")):
        assert "${{" not in text
