"""Killed at any instant, the store opens again, whole. The long form: ``python benchmarks/kill_store.py``."""

import json
import subprocess
import sys


def test_kills_at_random_instants_harm_nothing_and_are_named(repository, tmp_path):
    argv = [sys.executable, "-P", repository / "benchmarks" / "kill_store.py", "--count", "4", "--seed", "5", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=280, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert sum(result["fell"].values()) == 4
    assert any("while" in where for where in result["fell"]), "no kill met anything"
