import struct

import pytest
import zstandard

from ncubble.analysis.container import check_frame
from ncubble.errors import ReportError


def frame(*blocks, header=b"\x08\x07"):
    parts = [b"NVR\0", struct.pack("<I", len(header)), header]
    for block in blocks:
        parts += [struct.pack("<I", len(block)), block]
    return b"".join(parts)


WHOLE = frame(b"x" * 300, b"..2025.3.1.0 (build 36398880) (public-release)..", b"y" * 7)


def test_a_whole_frame_gives_blocks_size_and_ncu_version(tmp_path):
    path = tmp_path / "a.ncu-rep"
    path.write_bytes(WHOLE)
    found = check_frame(path)
    assert (found.blocks, found.size, found.ncu_version) == (3, len(WHOLE), "2025.3.1")


def test_a_zstd_report_is_walked_in_its_plain_form(tmp_path):
    path = tmp_path / "a.ncu-repz"
    path.write_bytes(zstandard.compress(WHOLE))
    assert check_frame(path).blocks == 3


@pytest.mark.parametrize("size", [*range(len(WHOLE) - 1, 0, -41), 4, 8, 10, 12])
def test_every_truncation_inside_a_block_is_refused(tmp_path, size):
    borders = {10 + 304, 10 + 304 + 4 + 48}
    assert size not in borders, "a cut between blocks looks like a shorter report and is left to the content checks"
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(WHOLE[:size])
    with pytest.raises(ReportError, match=r"truncated|empty|not an Nsight"):
        check_frame(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "empty"), (b"PK\3\4rest of a zip", "not an Nsight Compute report"), (b"a text file\n" * 9, "not an Nsight")],
)
def test_a_foreign_file_is_refused_with_its_name(tmp_path, data, message):
    path = tmp_path / "odd.ncu-rep"
    path.write_bytes(data)
    with pytest.raises(ReportError, match=message) as caught:
        check_frame(path)
    assert "odd.ncu-rep" in str(caught.value)


def test_other_compression_and_cut_zstd_are_refused(tmp_path):
    gz = tmp_path / "a.ncu-repz"
    gz.write_bytes(b"\x1f\x8b" + b"0" * 40)
    with pytest.raises(ReportError, match="not compressed with zstd"):
        check_frame(gz)
    gz.write_bytes(zstandard.compress(WHOLE)[:-20])
    with pytest.raises(ReportError, match=r"truncated|damaged compression"):
        check_frame(gz)


def test_a_missing_file_is_an_error_with_its_cause(tmp_path):
    with pytest.raises(ReportError, match="No such file"):
        check_frame(tmp_path / "gone.ncu-rep")
