"""Killed at any instant, the store opens again, whole. The long form: ``python -m
benchmarks.profiling.kills``."""

import json
import subprocess
import sys


def test_kills_at_random_instants_harm_nothing_and_are_named(repository):
    """On a machine whose speed changes meanwhile, all of a few kills may fall beside the work: then
    a few more."""

    def fell(seed):
        argv = [sys.executable, "-m", "benchmarks.profiling.kills", "--count", "4", "--seed", seed]
        done = subprocess.run([*argv, "--json"], capture_output=True, text=True, timeout=90, cwd=repository)
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)["fell"]
        assert sum(found.values()) == 4
        return found

    assert any("while" in where for seed in ("5", "6", "7") for where in fell(seed)), "no kill met anything"
