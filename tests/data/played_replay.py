"""Stands in for the program that replays a capsule: what becomes of each variant stands in its
cubin.

``ok``, ``differs``, the driver's name of an error, ``hang`` and ``die``. A number in ``taken``, in
the capsule's folder, ends so many processes before any launch. Each process adds the names in its
plan to ``processes.jsonl``.
"""

import json
import os
import sys
import time
from pathlib import Path


def say(row: object) -> None:
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def main() -> int:
    folder, plan = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())["launches"]
    with (folder / "processes.jsonl").open("a") as log:
        log.write(json.dumps([entry["name"] for entry in plan]) + "\n")
    if os.environ.get("CUDA_INJECTION64_PATH"):
        return 9
    taken = folder / "taken"
    if taken.exists() and (left := int(taken.read_text())):
        taken.write_text(str(left - 1))
        sys.stderr.write("0x7f0000000000 is in use\n")
        return 4
    sys.stdout.write("a line of the driver\n7\n")
    for entry in plan:
        fate = Path(entry["cubin"]).read_text()
        say({"starts": entry["name"]})
        if fate == "hang":
            time.sleep(60)
        if fate == "die":
            return 1
        if fate not in ("ok", "differs"):
            say({"name": entry["name"], "status": fate, "same": None})
            return 3
        say({"name": entry["name"], "status": "ok", "same": fate == "ok" if entry["compare"] else None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
