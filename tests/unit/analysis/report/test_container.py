import struct

import pytest
import zstandard

from ncubble.analysis.report import container
from ncubble.analysis.report.container import check_frame
from ncubble.errors import ReportError
from ncubble.recordings import REPEATS, ROOT


def varint(value):
    head = bytearray()
    while value > 127:
        head.append(value & 127 | 128)
        value >>= 7
    return bytes([*head, value])


def message(**fields):
    """A protobuf message: ``f1=5`` is field 1 with the number 5, ``f4=b"…"`` field 4 with these
    bytes."""
    parts = []
    for name, value in fields.items():
        number = int(name[1:])
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            parts.append(varint(number << 3 | 2) + varint(len(value)) + value)
    return b"".join(parts)


def prefixed(data):
    return struct.pack("<I", len(data)) + data


def block(sources=(), results=(), ranges=(), **changed):
    payload = b"".join(map(prefixed, [*sources, *results, *ranges]))
    fields = {"f1": len(sources), "f2": len(results), "f4": b"strings", "f5": len(payload), "f7": len(ranges)}
    return prefixed(message(**(fields | changed))) + payload


def frame(*blocks):
    return b"NVR\0" + prefixed(b"\x08\x07") + b"".join(blocks)


SESSION = block(f3=message(f8=b"..2025.3.1.0 (build 36398880) (public-release).."))
WHOLE = frame(SESSION, block(sources=[b"x" * 300]), block(results=[b"y" * 7, b"z" * 9]), block(ranges=[b"r"]))


def opened(tmp_path, data, name="a.ncu-rep"):
    path = tmp_path / name
    path.write_bytes(data)
    return check_frame(path)


def test_a_whole_frame_gives_launches_size_and_ncu_version(tmp_path):
    found = opened(tmp_path, WHOLE)
    assert (found.launches, found.size, found.plain_size, found.ncu_version) == (3, len(WHOLE), len(WHOLE), "2025.3.1")


def test_a_report_without_what_comes_last_is_told_from_a_whole_one(tmp_path):
    said = [block(f3=message(f6=b"device")), block(f3=message(f5=b"")), block(f3=message(f4=b"times"))]
    assert [opened(tmp_path, frame(SESSION, *said[:count])).ends for count in range(4)] == [False, False, False, True]
    assert not opened(tmp_path, frame(SESSION, said[2])).ends  # nor is either of the two alone enough
    assert opened(tmp_path, frame(SESSION, block(f3=message(f4=b"times", f5=b"", f6=b"device")))).ends


@pytest.mark.parametrize(
    ("numbers", "ordered"), [([], True), ([7], True), ([7, 8, 12], True), ([7, 7], False), ([8, 7], False)]
)
def test_launches_that_stand_there_twice_or_in_another_order_are_told(tmp_path, numbers, ordered):
    launches = [block(results=[message(f1=2504, f2=number)]) for number in numbers]
    assert opened(tmp_path, frame(SESSION, *launches)).ordered == ordered
    together = block(results=[message(f1=2504, f2=number) for number in numbers])
    assert opened(tmp_path, frame(SESSION, together)).ordered == ordered


def test_processes_count_their_launches_on_their_own(tmp_path):
    launches = [message(f1=thread, f2=number) for thread, number in ((1, 7), (1, 8), (2, 7), (2, 8))]
    assert opened(tmp_path, frame(SESSION, block(results=launches))).ordered


def test_numbers_of_fixed_width_and_the_largest_of_one_byte_are_passed_over(tmp_path):
    fixed = bytes([9 << 3 | 5, *b"four", 9 << 3 | 1, *b"eight by"])
    payload = prefixed(b"y" * 123)
    header = message(f2=1, f5=len(payload)) + fixed
    assert len(payload) == 127
    assert opened(tmp_path, frame(SESSION, prefixed(header) + payload)).launches == 1


def test_a_block_holds_as_many_entries_as_its_counts_add_up_to(tmp_path):
    mixed = block(sources=[b"x"], results=[b"y"], ranges=[b"r"])
    assert opened(tmp_path, frame(SESSION, mixed)).launches == 2
    assert opened(tmp_path, frame(SESSION, prefixed(message(f4=b"strings")))).launches == 0


@pytest.mark.parametrize("data", [b"\xff\xff\xff\x7f", b"\x01\x00\x00\x04"])
def test_a_header_that_would_be_larger_than_any_is_refused_before_it_is_read(tmp_path, data):
    with pytest.raises(ReportError, match="its header claims"):
        opened(tmp_path, b"NVR\0" + data)


def test_a_header_of_the_largest_size_is_no_damage(tmp_path):
    for before, name in ((b"NVR\0", "the header"), (frame(SESSION), "block 1")):
        with pytest.raises(ReportError, match=f"truncated, {name} lacks {1 << 26} of its {1 << 26} bytes"):
            opened(tmp_path, before + struct.pack("<I", 1 << 26))


def test_what_is_cut_off_says_how_much_is_lacking(tmp_path):
    header = prefixed(message(f1=1, f5=24))
    for data, lacks in (
        (header[:-3], f"block 1 lacks 3 of its {len(header) - 4} bytes"),
        (header + struct.pack("<I", 20) + b"y" * 13, "block 1 lacks 7 of its 20 bytes"),
        (header[:2], "inside the length of block 1"),
    ):
        with pytest.raises(ReportError, match=lacks):
            opened(tmp_path, frame(SESSION, data))


def test_the_largest_entry_of_protobuf_is_no_damage_and_a_larger_one_is(tmp_path):
    limit = 2**31 - 1
    for size, wrong in ((limit, f"lacks {limit} of its {limit} bytes"), (limit + 1, f"an entry of {limit + 1} bytes")):
        announced = prefixed(message(f1=1, f5=4 + size)) + struct.pack("<I", size)
        with pytest.raises(ReportError, match=wrong):
            opened(tmp_path, frame(SESSION, announced))


def test_the_version_is_found_inside_an_entry_too(tmp_path):
    assert opened(tmp_path, frame(block(sources=[b"..2021.3.0.0 (build 3) .."]))).ncu_version == "2021.3.0"


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (block(results=[b"y" * 7], f5=10), "longer than it announces"),
        (block(results=[b"y" * 7], f5=14), "announces 3 bytes more"),
        (block(results=[b"y" * 7], f2=2), "longer than it announces"),
        (block(results=[b"y" * 7], f1=1 << 40), "longer than it announces"),
        (block(results=[b""]), "an entry of 0 bytes"),
        (prefixed(b""), "header of block 1 claims 0 bytes"),
        (b"\xff\xff\xff\xff", "header of block 1 claims 4294967295 bytes"),
        (prefixed(b"\x0f\x01"), "not a protobuf message"),
        (prefixed(b"\x22\x7f"), "not a protobuf message"),
        (prefixed(b"\xff" * 12), "not a protobuf message"),
        (prefixed(b"\x08\xff"), "not a protobuf message"),
        (block(f3=b"\x22\x7f"), "not a protobuf message"),
    ],
)
def test_a_block_that_contradicts_itself_is_refused(tmp_path, damaged, message):
    with pytest.raises(ReportError, match=message):
        opened(tmp_path, frame(SESSION, damaged))


def test_what_unpacks_to_more_than_a_report_can_be_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "LARGEST_PLAIN_B", 1 << 20)
    bomb = frame(block(sources=[bytes(2 << 20)]))
    with pytest.raises(ReportError, match="unpacks to more than"):
        opened(tmp_path, zstandard.compress(bomb), "bomb.ncu-repz")


def test_a_small_report_may_shrink_more_than_others(tmp_path):
    found = opened(tmp_path, zstandard.compress(frame(block(sources=[bytes(2 << 20)]))), "zeros.ncu-repz")
    assert found.plain_size > container.LARGEST_RATIO * found.size


@pytest.mark.skipif(not any(ROOT.rglob("*.ncu-repz")), reason="no recordings")
def test_a_real_report_announces_its_launches_and_ends():
    assert {(found.launches, found.ends) for found in map(check_frame, ROOT.rglob("*.ncu-repz"))} == {(1, True)}
    assert {(found.launches, found.ends) for found in map(check_frame, REPEATS.rglob("*.ncu-repz"))} == {(5, True)}


def test_a_zstd_report_is_walked_in_its_plain_form(tmp_path):
    packed = zstandard.compress(WHOLE)
    found = opened(tmp_path, packed, "a.ncu-repz")
    assert (found.launches, found.size, found.plain_size) == (3, len(packed), len(WHOLE))


BORDERS = {len(frame(*map(bytes, blocks))) for blocks in ([SESSION], [SESSION, block(sources=[b"x" * 300])])}
BORDERS |= {len(WHOLE) - len(block(ranges=[b"r"]))}


def test_every_truncation_inside_a_block_is_refused(tmp_path):
    for size in sorted(set(range(1, len(WHOLE))) - BORDERS):
        with pytest.raises(ReportError, match=r"truncated|not an Nsight"):
            opened(tmp_path, WHOLE[:size])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty file"),
        (b"PK\3\4rest of a zip", "not an Nsight Compute report"),
        (b"a text file\n" * 9, "not an Nsight"),
        (zstandard.compress(b"x"), r"compressed with zstd, not a plain report\n  remedy: rename it: odd\.ncu-repz"),
    ],
)
def test_a_foreign_file_is_refused_with_its_name(tmp_path, data, message):
    path = tmp_path / "odd.ncu-rep"
    path.write_bytes(data)
    with pytest.raises(ReportError, match=message) as caught:
        check_frame(path)
    assert "odd.ncu-rep" in str(caught.value)


def test_other_compression_and_cut_zstd_are_refused(tmp_path):
    gz = tmp_path / "a.ncu-repz"
    for head in (b"\x1f\x8b" + b"0" * 40, b"PK\3\4", b"NVR\0"):
        gz.write_bytes(head)
        with pytest.raises(ReportError, match=r"not compressed with zstd\n"):
            check_frame(gz)
    gz.write_bytes(b"")
    with pytest.raises(ReportError, match=r": empty\n") as caught:
        check_frame(gz)
    assert "copy the file again" in caught.value.remedy
    gz.write_bytes(zstandard.compress(b""))
    with pytest.raises(ReportError, match="empty or truncated"):
        check_frame(gz)
    gz.write_bytes(zstandard.compress(WHOLE)[:-20])
    with pytest.raises(ReportError, match=r"truncated|damaged compression"):
        check_frame(gz)


def test_a_missing_file_is_an_error_with_its_cause(tmp_path):
    with pytest.raises(ReportError, match="No such file"):
        check_frame(tmp_path / "gone.ncu-rep")


def part(number, payload, wire=2):
    return varint(number << 3 | wire) + (varint(len(payload)) if wire == 2 else b"") + payload


SAID = part(1, part(1, b"low occupancy"))
NAMED = part(1, b"Occupancy") + part(2, b"Name") + part(4, b"Section")


def test_fields_of_every_wire_type_are_told_apart():
    message = part(1, b"\x05", 0) + part(2, b"text") + part(3, bytes(8), 1) + part(4, bytes(4), 5)
    numbers, messages = container.members(message)
    assert numbers == {1: 5}
    assert messages[2] == b"text"


@pytest.mark.parametrize("message", [part(2, b"text")[:-1], part(3, bytes(8), 1)[:-1], part(1, b"", 3), b"\xff" * 11])
def test_what_is_no_message_is_refused(message):
    with pytest.raises((ValueError, IndexError)):
        container.members(message)


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
    assert container.rules_speak(other + part(19, NAMED + result)) is speaks


def test_a_rule_of_another_type_does_not_speak():
    assert not container.rules_speak(part(19, b"\x05", 0))


def test_what_is_no_message_is_left_to_the_native_reader():
    assert container.rules_speak(b"\xff" * 20)
    assert container.rules_speak(part(19, NAMED + part(3, SAID)[:-1]))


def test_a_metric_whose_name_is_no_number_is_left_to_the_native_reader():
    launch = part(13, part(1, b"a name") + part(2, b"")) + part(13, part(1, b"\x00", 0) + part(2, b""))
    assert container.repeated(launch, ["the first metric"]) == ""
