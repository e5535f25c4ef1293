"""A program that answers requests: it may die, hang or grow, and the next request finds a fresh
one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ncubble.profiling.processes import ServerDiedError, ServingProcess

PROGRAM = """
import os, signal, time
from ncubble.profiling.processes import answer_requests, limit_memory
limit_memory(4 << 30)
def answer(request, progress):
    print("noise of native code")
    if request["do"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if request["do"] == "exit":
        os._exit(7)
    if request["do"] == "grow":
        bytearray(8 << 30)
    if request["do"] == "hang":
        time.sleep(60)
    for _ in range(4 if request["do"] == "work" else 0):
        time.sleep(0.3)
        progress()
    return {"pid": os.getpid(), "variable": os.environ.get("SERVED")}
answer_requests(answer)
"""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServingProcess]:
    (tmp_path / "served_program.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = ServingProcess("served_program", lambda: {"SERVED": "yes"}, own_group=True)
    yield process
    process.close()


def test_one_process_answers_many_requests_with_the_variables_it_was_given(server: ServingProcess) -> None:
    first, second = (server.ask({"do": "nothing"}, 30) for _ in range(2))
    assert first == second
    assert first["variable"] == "yes"


@pytest.mark.parametrize(("do", "how"), [("die", "SIGKILL"), ("exit", "exit code 7"), ("grow", "exit code 1")])
def test_a_death_is_told_and_the_next_request_is_answered_by_another_process(
    server: ServingProcess, do: str, how: str
) -> None:
    before = server.ask({"do": "nothing"}, 30)["pid"]
    with pytest.raises(ServerDiedError, match=how) as died:
        server.ask({"do": do}, 30)
    assert not died.value.expired
    assert server.ask({"do": "nothing"}, 30)["pid"] != before


def test_one_that_hangs_is_ended_at_the_limit(server: ServingProcess) -> None:
    server.ask({"do": "nothing"}, 30)
    with pytest.raises(ServerDiedError) as died:
        server.ask({"do": "hang"}, 0.3)
    assert (died.value.expired, died.value.status) == (True, -signal.SIGKILL)


def test_progress_prolongs_the_limit(server: ServingProcess) -> None:
    server.ask({"do": "nothing"}, 30)
    assert server.ask({"do": "work"}, 0.9)["pid"]


def test_one_that_died_between_requests_costs_no_request(server: ServingProcess) -> None:
    pid = server.ask({"do": "nothing"}, 30)["pid"]
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert server.ask({"do": "nothing"}, 30)["pid"] != pid
