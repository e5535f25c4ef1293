"""JSON that is copied as it is read: every character, in pieces of any size, and what is no
JSON."""

import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncubble.analysis.kineto import json_text
from ncubble.analysis.kineto.json_text import JsonCopy, reading, with_member
from ncubble.errors import ReportError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


class Slow(io.StringIO):
    """Text that comes in pieces of a few characters, however many were wanted."""

    step = 3

    def read(self, size=-1):
        return super().read(self.step)


def copied(source):
    """What is copied of a text whose values are all handed on as they are."""
    sink = io.StringIO()
    copy = JsonCopy(source, sink.write, "t.json")
    for _ in copy.members():
        if copy.peek() == "[":
            for _ in copy.elements():
                sink.write(copy.value()[1])
            copy.take("]")
        else:
            sink.write(copy.value()[1])
    copy.take("}")
    assert copy.peek() == ""
    return sink.getvalue()


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=5), st.sampled_from([None, 1, "\t"]), st.integers(1, 9))
def test_every_character_survives_in_pieces_of_any_size(members, indent, step):
    source = Slow("\n " + json.dumps(members, indent=indent) + " \n")
    source.step = step
    assert copied(source) == source.getvalue()


def test_digits_escapes_and_blanks_stay_as_they_are():
    text = '{ "ts" : 1712195495505582.9880 ,\t"n":[ 1E+2,\n-0.0 , "\\u0041\\/" ] }'
    assert copied(io.StringIO(text)) == text


def test_bytes_that_are_no_text_survive(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(b'{"name": "\xff\xfe"}')
    with reading(path) as source:
        text = copied(source)
    assert text.encode("utf-8", "surrogateescape") == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is truncated"),
        ("[1]", "expected {"),
        ('{"a": 1', "it is truncated"),
        ('{"a": [1, 2}', "expected"),
        ('{"a": tru}', "Expecting value"),
        ('{"a" 1}', "expected :"),
        ("{1: 2}", "expected a member name"),
        ('{"a": "x', "Unterminated string"),
        ('{"a": 1,}', "Expecting|expected a member name"),
        ('{"a": {"b": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text, said):
    with pytest.raises(ReportError, match=said) as refused:
        copied(io.StringIO(text))
    assert "t.json" in str(refused.value)
    assert "at character" in str(refused.value)


def test_a_value_that_never_ends_is_refused_before_it_fills_memory(monkeypatch):
    monkeypatch.setattr(json_text, "CHUNK", 1 << 10)
    monkeypatch.setattr(json_text, "LARGEST_VALUE", 1 << 14)
    source = io.StringIO('{"a": "' + "x" * (1 << 18))
    with pytest.raises(ReportError, match="longer than"):
        copied(source)
    assert source.tell() < 1 << 17


@pytest.mark.parametrize(
    "pack",
    [
        lambda data: gzip.compress(data)[:-40],
        lambda data: gzip.compress(data)[:60] + b"zzzz" + gzip.compress(data)[64:],
        lambda data: gzip.compress(b'{"a": [' + b"0," * (1 << 22) + b"0]}"),
    ],
    ids=["cut", "damaged", "bomb"],
)
def test_an_archive_that_is_damaged_or_unpacks_to_too_much_is_refused(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(json_text, "LARGEST_TEXT", 1 << 22)
    path = tmp_path / "t.json.gz"
    path.write_bytes(pack(json.dumps({"a": list(range(10_000))}).encode()))
    with reading(path) as source, pytest.raises(ReportError):
        copied(source)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"args": {"a": 1}}', '{"args": {"a": 1, "m": 2}}'),
        ('{ "x":{"args":{}}, "args" : { } ,"y":1}', '{ "x":{"args":{}}, "args" : { "m": 2} ,"y":1}'),
        ('{"x": 1.50}', '{"x": 1.50, "args": {"m": 2}}'),
        ("{}", '{"args": {"m": 2}}'),
        ('{"args": null}', '{"args": {"m": 2}}'),
        ('{"args": {"s": "}\\"{"}, "z": [1,2]}', '{"args": {"s": "}\\"{", "m": 2}, "z": [1,2]}'),
    ],
)
def test_a_member_is_added_and_nothing_else_changes(text, expected):
    assert with_member(text, "args", "m", "2") == expected


@given(st.dictionaries(st.text(max_size=6), VALUES, max_size=5), VALUES)
def test_an_added_member_is_found(event, args):
    text = with_member(json.dumps({**event, "args": args}), "args", "ncubble", "[1]")
    told = json.loads(text)
    assert told["args"]["ncubble"] == [1]
    kept = {key: value for key, value in told["args"].items() if key != "ncubble"}
    assert kept == ({key: args[key] for key in args if key != "ncubble"} if isinstance(args, dict) else {})
    assert {key: value for key, value in told.items() if key != "args"} == {
        key: value for key, value in event.items() if key != "args"
    }
