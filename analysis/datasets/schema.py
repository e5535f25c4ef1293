"""The rows of a dataset's files, and the views that SQL sees of them.

A file holds one report: a row for each launch that could be judged, or a single row without a
launch where there is none. Units are in the names of columns (``_pct``: of elapsed SM cycles).
Later versions add columns, which are null in older files; ``VERSION`` is raised by other changes.
"""

from __future__ import annotations

import pyarrow as pa

from ncubble.analysis.account.parts import PARTS

VERSION = 5
LONGEST = 2000
"""Maximum length of a stored error or warning."""
_TEXT, _NUMBER, _COUNT, _LONG = pa.string(), pa.float64(), pa.int32(), pa.int64()

ABOUT = pa.struct(
    [
        ("path", _TEXT),  # absolute: the run directory, or the bare report file
        ("file", _TEXT),  # absolute: the report file
        ("sha256", _TEXT),  # of the report file as stored; null where it could not be read
        ("rules", _TEXT),  # hash of what turns tables into verdicts (``results.rules_hash``)
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
    ]
)
LAUNCH = pa.schema(
    [
        ("report", _TEXT),  # name of the file: of report and manifest, by content
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
        *((f"{part}_pct", _NUMBER) for part in PARTS),  # null: not split, or not collected
        ("merged", _TEXT),  # JSON object: which finer parts a coarser one holds
        ("cause", _TEXT),
        ("change", _TEXT),  # kind of the first change
        ("change_text", _TEXT),
        ("gain_pct", _NUMBER),  # null: not known
        ("cause_pct", _NUMBER),
        ("file", _TEXT),  # the hottest instruction of the cause
        ("line", _COUNT),
        ("integrity", _TEXT),
        ("warnings", pa.list_(_TEXT)),
    ]
)
METRIC = pa.struct([("metric", _TEXT), ("value", _NUMBER), ("unit", _TEXT)])
ROW = pa.schema(
    [
        *LAUNCH,
        ("about", ABOUT),  # in the first row of a file, like ``errors``
        ("errors", pa.list_(pa.struct([("error", _TEXT), ("remedy", _TEXT)]))),
        ("metrics", pa.list_(METRIC)),
    ]
)
VIEWS = {
    "launches": "SELECT * EXCLUDE (about, errors, metrics) FROM rows WHERE launch IS NOT NULL",
    "reports": "SELECT report, unnest(about) FROM rows WHERE about IS NOT NULL",
    "errors": "SELECT report, path, unnest(errors, max_depth := 2) FROM rows",
    "metrics": "SELECT report, launch, unnest(metrics, max_depth := 2) FROM rows",
}
