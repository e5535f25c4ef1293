"""A running ``ncubble dashboard`` and the questions that a browser would ask it."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.harness import limited
from ncubble.dashboard.app.serving import cookie_name

PRINTED = re.compile(r"dashboard on (http://\S+)")
PROGRESS = [
    ("loading-state", "children"),
    ("progress", "disabled"),
    ("progress", "interval"),
    ("store-version", "data"),
]
"""What the callback of the header's progress answers."""
START_S, ANSWER_S, END_S = 60.0, 60.0, 20.0


class Served:
    """The dashboard of ``reports`` as a process, on any free port, with its log in ``folder``.

    ``sources`` is the checkout that it runs from, else the one of this process.
    ``host`` and ``cookie`` are what a request needs. ``problems`` collects what must not happen:
    5xx, errors in the log, an early or a late end.
    """

    def __init__(self, reports: Path, folder: Path, time_limit_s: float, sources: Path | None = None) -> None:
        self.log = folder / "log"
        self.problems: list[str] = []
        self.slowest_s = 0.0
        self._argv = limited.argv(time_limit_s, "dashboard", reports, "--port", 0)
        self._environment = limited.environment(folder / "served-cache")
        if sources is not None:
            self._environment["PYTHONPATH"] = str(sources)

    def __enter__(self) -> Served:
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(self._argv, stdout=sink, stderr=sink, env=self._environment)
        until = time.monotonic() + START_S
        while not (found := PRINTED.search(self.log.read_text(errors="replace"))):
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text(errors="replace")
            time.sleep(0.05)
        address = urlsplit(found[1])
        self.host = address.netloc
        self.cookie = f"{cookie_name(self.host)}={address.query.removeprefix('token=')}"
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is not None:
            self.problems.append(f"the server ended by itself ({self.process.returncode})")
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.problems.append(f"the server did not end within {END_S:g} s of an interrupt")
            self.process.kill()
            self.process.wait()
        said = self.log.read_text(errors="replace")
        self.problems += [f"the log says: {said[-2000:]}"] if re.search(r"Traceback|error|ERROR", said) else []

    def wait(self, limit_s: float) -> float:
        """Seconds until the page says that everything is read."""
        begun = time.monotonic()
        while not self._ask(PROGRESS, [("progress", "n_intervals", 1)], [("store-version", "data", None)])[
            "store-version"
        ]["data"]["finished"]:
            if time.monotonic() - begun > limit_s:
                self.problems.append(f"reading did not end within {limit_s:.0f} s")
                break
            time.sleep(0.1)
        return time.monotonic() - begun

    def rows(self) -> list[dict[str, Any]]:
        """All rows of the table, block by block as the browser asks for them."""
        found: list[dict[str, Any]] = []
        while True:
            place = f"start={len(found)}&end={len(found) + 500}"
            part = json.loads(self._request("GET", f"/_launches/rows?group=none&{place}"))
            found += part["rows"]
            if not part["rows"] or len(found) >= part["count"]:
                return found

    def _ask(
        self,
        outputs: list[tuple[str, str]],
        given: list[tuple[str, str, Any]],
        state: list[tuple[str, str, Any]] | None = None,
    ) -> dict[str, Any]:
        question = {
            "output": f"..{'...'.join(f'{one}.{its}' for one, its in outputs)}..",
            "outputs": [{"id": one, "property": its} for one, its in outputs],
            "inputs": [{"id": name, "property": member, "value": value} for name, member, value in given],
            "changedPropIds": [f"{name}.{member}" for name, member, _ in given],
            "state": [{"id": name, "property": member, "value": value} for name, member, value in state or []],
        }
        answer = json.loads(self._request("POST", "/_dash-update-component", json.dumps(question)))
        response: dict[str, Any] = answer["response"]
        return response

    def _request(self, method: str, path: str, body: str | None = None) -> bytes:
        begun = time.monotonic()
        connection = http.client.HTTPConnection(self.host, timeout=ANSWER_S)
        kind = {"Content-Type": "application/json"} if body else {}
        connection.request(method, path, body, {"Cookie": self.cookie, **kind})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
        if answer.status != 200:
            self.problems.append(f"{method} {path} {body or ''}: {answer.status}")
        return data
