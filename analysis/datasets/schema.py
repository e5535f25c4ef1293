"""What the tables of a dataset hold: their columns, and in which order and row groups they are
written.

A dataset is what ``ncubble ingest`` makes of many reports (``dataset``). Later versions only add
nullable columns.
"""

from __future__ import annotations

import pyarrow as pa

from ncubble.analysis.account.parts import PARTS

SCHEMA = 2
"""Raised by changes that older readers would misread; adding a nullable column is not one."""
SCHEMA_KEY = b"ncubble.dataset"
_TEXT, _NUMBER, _COUNT, _LONG = pa.string(), pa.float64(), pa.int32(), pa.int64()

REPORTS = pa.schema(
    [
        ("report", _TEXT),  # id: 16 hex digits of the SHA-256 of ``path``
        ("path", _TEXT),  # absolute: the run directory, or the bare report file
        ("file", _TEXT),  # absolute: the report file
        ("sha256", _TEXT),  # of the report file as stored; null where it could not be read
        ("facts", _TEXT),  # hash of the manifest beside it
        ("rules", _TEXT),  # hash of what turns tables into verdicts (``results.rules_hash``)
        ("stamp", _TEXT),  # size and times of report and manifest: nothing is reread while they are unchanged
        ("bytes", _LONG),
        ("launches", _COUNT),
        ("label", _TEXT),
        ("outcome", _TEXT),
        ("started", _TEXT),
        ("ncu_version", _TEXT),
        ("git_sha", _TEXT),
        ("rank", _COUNT),  # null: not known
        ("world_size", _COUNT),
        ("rank_from", _TEXT),  # source of the rank: an environment variable, or "name"
        ("program", _TEXT),  # the path without the rank: equal for the ranks of one program
        ("complete", pa.bool_()),  # read, and every launch judged
        ("details", pa.bool_()),  # with its rows in the tables of ``--details``
    ]
)
LAUNCHES = pa.schema(
    [
        ("report", _TEXT),
        ("launch", _COUNT),
        ("path", _TEXT),
        ("sha256", _TEXT),
        ("rank", _COUNT),
        ("program", _TEXT),
        ("label", _TEXT),
        ("parameters", _TEXT),  # JSON object
        ("shape", _TEXT),  # JSON object
        ("kernel", _TEXT),
        ("demangled", _TEXT),
        ("grid", _TEXT),
        ("block", _TEXT),
        ("nvtx", _TEXT),
        ("registers", _LONG),
        ("smem_static_B", _LONG),
        ("smem_dynamic_B", _LONG),
        ("device", _TEXT),
        ("compute_capability", _TEXT),
        ("ncu_version", _TEXT),
        ("duration_ns", _NUMBER),
        ("cycles", _NUMBER),
        ("sm_clock_hz", _NUMBER),
        ("tensor_elapsed_pct", _NUMBER),
        ("tensor_of_active_pct", _NUMBER),
        ("dram_pct", _NUMBER),
        ("ldgsts", _NUMBER),
        ("tma", _NUMBER),
        ("unit", _TEXT),
        *((f"{part}_pct", _NUMBER) for part in PARTS),  # of elapsed SM cycles; null: not split, or not collected
        ("merged", _TEXT),  # JSON object: which finer parts a coarser one holds
        ("cause", _TEXT),
        ("disease", _TEXT),
        ("cause_pct", _NUMBER),
        ("fix", _TEXT),
        ("predicted_gain_pct", _NUMBER),
        ("file", _TEXT),  # the hottest instruction of the cause
        ("line", _COUNT),
        ("integrity", _TEXT),
        ("warnings", pa.list_(_TEXT)),
    ]
)
METRICS = pa.schema([("metric", _TEXT), ("report", _TEXT), ("launch", _COUNT), ("value", _NUMBER), ("unit", _TEXT)])
ERRORS = pa.schema([("report", _TEXT), ("path", _TEXT), ("error", _TEXT), ("remedy", _TEXT)])
TIMELINE = pa.schema(
    [("report", _TEXT), ("launch", _COUNT), ("metric", _TEXT), ("t_ns", _LONG), ("value", _NUMBER), ("unit", _TEXT)]
)
SOURCE = pa.schema(
    [
        ("report", _TEXT),
        ("launch", _COUNT),
        ("pc", _LONG),
        ("sass", _TEXT),
        ("opcode", _TEXT),
        ("file", _TEXT),
        ("line", _COUNT),
        ("samples", _NUMBER),
        ("executed", _NUMBER),
        ("stalls", pa.map_(_TEXT, _NUMBER)),  # warp samples by reason, those above 0
    ]
)
RULES = pa.schema(
    [
        ("report", _TEXT),
        ("launch", _COUNT),
        ("section", _TEXT),
        ("rule", _TEXT),
        ("title", _TEXT),
        ("message", _TEXT),
        ("kind", _TEXT),
        ("speedup_pct", _NUMBER),
        ("speedup_kind", _TEXT),
    ]
)
TABLES = {"reports": REPORTS, "launches": LAUNCHES, "metrics": METRICS, "errors": ERRORS}
DETAILS = {"timeline": TIMELINE, "source": SOURCE, "rules": RULES}
# Texts are plain here and dictionaries in the file: Arrow ignores statistics of dictionary columns.
SORTED = {"metrics": ("metric", "report", "launch"), "timeline": ("report", "launch", "metric", "t_ns")}
"""Rows of a part are sorted by these, so that row-group statistics show which groups have a
metric."""
GROUP_ROWS = 8192
"""Maximum rows of a row group: what a reader decodes at once."""
LONGEST = 2000
"""Maximum length of a stored error or warning."""


def stored(table: str) -> pa.Schema:
    """The schema of a table's files, marked with the version."""
    return (TABLES | DETAILS)[table].with_metadata({SCHEMA_KEY: str(SCHEMA).encode()})
