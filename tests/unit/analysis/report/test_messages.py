"""Messages are read without their schema, and results of rules without a message are told."""

import pytest

from ncubble.analysis.report.container import members as fields
from ncubble.analysis.report.container import rules_speak


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def part(number, payload, wire=2):
    return varint(number << 3 | wire) + (varint(len(payload)) if wire == 2 else b"") + payload


SAID = part(1, part(1, b"low occupancy"))
NAMED = part(1, b"Occupancy") + part(2, b"Name") + part(4, b"Section")


def test_fields_of_every_wire_type_are_told_apart():
    message = part(1, b"\x05", 0) + part(2, b"text") + part(3, bytes(8), 1) + part(4, bytes(4), 5)
    numbers, messages = fields(message)
    assert numbers == {1: 5}
    assert messages[2] == b"text"


@pytest.mark.parametrize("message", [part(2, b"text")[:-1], part(3, bytes(8), 1)[:-1], part(1, b"", 3), b"\xff" * 11])
def test_what_is_no_message_is_refused(message):
    with pytest.raises((ValueError, IndexError)):
        fields(message)


@pytest.mark.parametrize(
    ("result", "speaks"),
    [
        (b"", True),
        (part(3, SAID), True),
        (part(3, SAID + SAID), True),
        (part(3, part(1, b"") + SAID), True),
        (part(3, SAID) + part(5, b"source marker"), True),
        (part(3, b""), False),
        (part(3, part(1, b"")), False),
        (part(3, part(7, b"renumbered")), False),
        (part(3, part(1, b"\x05", 0)), False),
        (part(3, b"\x05", 0), False),
        (part(3, SAID) + part(3, b""), False),
    ],
)
def test_a_result_of_a_rule_holds_a_message(result, speaks):
    other = part(1, b"\x01", 0) + part(13, b"counter") + part(19, NAMED + part(3, SAID))
    assert rules_speak(other + part(19, NAMED + result)) is speaks


def test_a_rule_of_another_type_does_not_speak():
    assert not rules_speak(part(19, b"\x05", 0))


def test_what_is_no_message_is_left_to_the_native_reader():
    assert rules_speak(b"\xff" * 20)
    assert rules_speak(part(19, NAMED + part(3, SAID)[:-1]))
