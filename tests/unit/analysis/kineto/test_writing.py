"""A trace with accounts: recorded kernels of PyTorch, the launch of an H200 that they are, and
every other character as it was."""

import gzip
import json
import os
import re
from pathlib import Path

import pytest

from benchmarks.streams import kineto_layout
from benchmarks.streams.kineto_layout import NVJET
from ncubble.analysis.kineto import trace
from ncubble.analysis.kineto.matching import Matcher
from ncubble.analysis.kineto.writing import write_accounts
from ncubble.analysis.program.record import profiled_launches
from ncubble.analysis.streams import recording as records
from ncubble.errors import ReportError, UsageError
from ncubble.recordings import LANES, RANKS


@pytest.fixture(scope="module")
def matcher():
    return Matcher(profiled_launches([RANKS / "rank0"])[0])


@pytest.fixture(scope="module")
def recorded():
    return kineto_layout.trace(kineto_layout.recorded(records.read(LANES / "streams-torch").rows))


def run(tmp_path, matcher, text, name="t.json", out="out.json"):
    path = tmp_path / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    write_accounts(path, tmp_path / out, matcher)


def without_additions(text):
    """The text of an augmented trace with what was added cut out."""
    text = re.sub(r",?\n\{\"ph\": \"C\", \"name\": \"ncubble %\".*?\}\}", "", text)
    decoder, name, kept, at = json.JSONDecoder(), '"ncubble": ', [], 0
    while (found := text.find(name, at)) >= 0:
        kept.append(text[at : found - 2] if text[found - 2 : found] == ", " else text[at:found])
        at = decoder.raw_decode(text, found + len(name))[1]
    return "".join([*kept, text[at:]])


def test_recorded_kernels_get_the_account_of_the_launch_that_they_are(tmp_path, matcher, recorded):
    run(tmp_path, matcher, recorded)
    told = json.loads((tmp_path / "out.json").read_text())
    kernels = [event for event in told["traceEvents"] if event.get("cat") == "kernel"]
    gemms = [event["args"]["ncubble"] for event in kernels if event["name"] == NVJET]
    assert len(gemms) == 26
    gemm = gemms[0]
    assert gemm["match"] == "matched" and gemm["repeats"] == 2 and gemm["launch"].endswith("rank0#2")
    assert gemm["cause"] == "none"
    assert sum(gemm["account_pct"].values()) == pytest.approx(100, abs=3)  # parts below 0.5 are left out
    assert gemm["tensor_busy_pct"] == pytest.approx(91.8, abs=0.1)
    assert gemm["profiled_us"] == pytest.approx(340, abs=1)
    assert gemm["page"].startswith("http://127.0.0.1:8050/kernel/")
    others = [event["args"]["ncubble"] for event in kernels if event["name"] != NVJET]
    assert {other["match"] for other in others} == {"not profiled"}
    assert told["ncubble"]["schema"] == 1


@pytest.mark.parametrize(("name", "out"), [("t.json", "o.json"), ("t.json.gz", "o.json"), ("t.json", "o.json.gz")])
def test_every_other_character_stays(tmp_path, matcher, recorded, name, out):
    run(tmp_path, matcher, recorded, name, out)
    data = (tmp_path / out).read_bytes()
    text = (gzip.decompress(data) if out.endswith(".gz") else data).decode()
    assert text != recorded
    assert without_additions(text) == recorded


def test_counters_of_kernels_that_run_at_once_are_their_mean(tmp_path, matcher):
    told = {**kineto_layout.GEOMETRY[NVJET], "stream": 8}
    events = [kineto_layout.kernel(NVJET, 0, 340, **told), kineto_layout.kernel("other", 170, 340)]
    run(tmp_path, matcher, kineto_layout.trace(events))
    counters = [one for one in json.loads((tmp_path / "out.json").read_text())["traceEvents"] if one["ph"] == "C"]
    assert [(one["ts"], one["args"]["no account"]) for one in counters] == [(0, 0), (170, 50), (340, 100), (510, 0)]


def test_a_bare_list_of_events_is_a_trace(tmp_path, matcher):
    event = kineto_layout.kernel("lone", 1.0, 2.0)
    run(tmp_path, matcher, f"[{event}]")
    told = json.loads((tmp_path / "out.json").read_text())
    assert [one["ph"] for one in told] == ["X", "C", "C"]
    assert told[1]["args"] == {"no account": 100.0}


@pytest.mark.parametrize(
    ("event", "written"),
    [
        ('{"args": {"a": 1.50},"y":1}', '{"args": {"a": 1.50, "ncubble": {}},"y":1}'),
        ('{ "x":{"args":{}}, "args" : { } ,"y":1}', '{ "x":{"args":{}}, "args" : { "ncubble": {}} ,"y":1}'),
        ('{"x": 1.50}', '{"x": 1.50, "args": {"ncubble": {}}}'),
        ('{"args": null}', '{"args": {"ncubble": {}}}'),
        ('{"args": {"s": "}\\"{"}}', '{"args": {"s": "}\\"{", "ncubble": {}}}'),
    ],
)
def test_an_argument_is_added_and_nothing_else_changes(tmp_path, matcher, event, written):
    head = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "ts": 1, "dur": 2.0, '
    run(tmp_path, matcher, f"[7,{head}{event[1:]}]")
    text = (tmp_path / "out.json").read_text()
    assert re.sub(r'("ncubble": {)[^}]*}', r"\1}", text).startswith(f"[7,{head}{written[1:]},\n")


def test_what_is_not_known_is_kept(tmp_path, matcher):
    odd = b'{"ph": "Q", "name": "<b>\xff\xfe", "pid": 1e400, "n": 1' + b"0" * 5000 + b"}"
    kernel = kineto_layout.kernel("k", 1, 2).encode()
    run(tmp_path, matcher, b'{"x": [{}], "traceEvents": [7, null, "a", ' + odd + b", " + kernel + b'], "y": 1E+2}')
    written = (tmp_path / "out.json").read_bytes()
    assert written.startswith(b'{"x": [{}], "traceEvents": [7, null, "a", ' + odd + b", ")
    assert b'"y": 1E+2, "ncubble": ' in written


def test_what_only_python_takes_for_json_is_written_as_json(tmp_path, matcher):
    told = kineto_layout.kernel("k", 1, 2)
    run(tmp_path, matcher, f'{{"a": NaN, "b": "\t\\ud800", "traceEvents": [{told}]}}')
    written = json.loads((tmp_path / "out.json").read_text())
    assert (written["a"], written["b"], len(written["traceEvents"])) == (None, "\t?", 3)


def test_others_may_read_it_as_the_umask_says(tmp_path, matcher):
    before = os.umask(0o026)
    try:
        run(tmp_path, matcher, f"[{kineto_layout.kernel('lone', 1.0, 2.0)}]")
    finally:
        os.umask(before)
    assert (tmp_path / "out.json").stat().st_mode & 0o777 == 0o640


def test_it_is_refused_a_second_time(tmp_path, matcher, recorded):
    run(tmp_path, matcher, recorded)
    for text in ((tmp_path / "out.json").read_text(), '{"ncubble": 1, "traceEvents": []}'):
        with pytest.raises(UsageError, match="already holds accounts"):
            run(tmp_path, matcher, text, "again.json", "twice.json")
    assert not (tmp_path / "twice.json").exists()


PACKED = gzip.compress(json.dumps({"traceEvents": list(range(10_000))}).encode())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "Expecting value"),
        (b"{}", "JSON without traceEvents"),
        (b'{"traceEvents": {}}', "Expected `array`"),
        (b'{"traceEvents": [1]} {}', "Extra data"),
        (b'"text"', "got `str`"),
        (b'{"traceEvents": [{"ph": "X"', "Expecting"),
        (b'{"traceEvents": [{"ph": tru}]}', "Expecting value"),
        (b'{"traceEvents": ' + b"[" * 100_000, "recursion"),
        (b"NVR\0" * 9, "a report of Nsight Compute"),
        (b'[{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "ts": 1, "dur": 2, "\xff": 1}]', "invalid JSON"),
        (PACKED[:-40], "cannot be read"),
        (PACKED[:60] + b"zzzz" + PACKED[64:], "cannot be read"),
        (gzip.compress(b'{"traceEvents": [' + b"0," * (1 << 22) + b"0]}"), "longer than"),
    ],
)
def test_what_is_no_trace_is_refused_and_leaves_nothing(tmp_path, matcher, monkeypatch, text, said):
    monkeypatch.setattr(trace, "LARGEST_B", 1 << 22)
    with pytest.raises(ReportError, match=said):
        run(tmp_path, matcher, text)
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]


def test_names_cannot_break_out_of_the_text(tmp_path, matcher):
    name = '"}],"x":{"\u0007\\</script>'
    run(tmp_path, matcher, kineto_layout.trace([kineto_layout.kernel(name, 1, 2)]))
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["traceEvents"][0]["name"] == name


def test_public_traces_keep_every_character(tmp_path, matcher):
    """Traces that others published, in the folder NCUBBLE_FOREIGN_TRACES: not ours to commit."""
    folder = os.environ.get("NCUBBLE_FOREIGN_TRACES")
    if not folder:
        pytest.skip("NCUBBLE_FOREIGN_TRACES names no folder of foreign traces")
    tried = 0
    for path in sorted(Path(folder).rglob("*.json.gz")):
        data = gzip.decompress(path.read_bytes())
        try:
            run(tmp_path, matcher, data, "t.json", "o.json")
        except ReportError as refused:
            assert "no Kineto trace: it is" in refused.message
            continue
        written = (tmp_path / "o.json").read_bytes().decode("utf-8", "surrogateescape")
        assert without_additions(written) == data.decode("utf-8", "surrogateescape")
        tried += 1
    assert tried
