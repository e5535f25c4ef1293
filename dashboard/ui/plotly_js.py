"""The part of plotly.js that our figures use: a quarter of its code, which a browser runs in a
third of the time."""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from itertools import pairwise

KINDS = ("bar", "icicle")
"""Kinds of traces in our figures, beside ``scatter``, which plotly.js cannot do without."""
_REQUIRED = re.compile(r"([\w$]+)=\((\w+),(\w+)\)=>\(\)=>\{try\{return \3\|\|\2\(\(\3=\{exports:\{\}\}\)\.exports,\3\)")
_IMPORTED = re.compile(r"([\w$]+)=\(\w+,\w+,(\w+)\)=>\(\)=>\{if\(\2\)throw \2\[0\]")
"""The functions that wrap a module, of either kind: it runs once another one calls its name."""
_REGISTERED = re.compile(r"(?<=\.register\(\[)(?:[\w$]+\(\),)+[\w$]+\(\)(?=\]\))")
"""The list of all kinds of traces, which runs nearly all modules."""


@cache
def plotly_js() -> str:
    """plotly.js without modules that no trace of ``KINDS`` needs; all of it where it is not built
    as we know it."""
    return reduced((pkgutil.get_data("plotly", "package_data/plotly.min.js") or b"").decode())


def reduced(whole: str) -> str:
    """The same of a bundle of esbuild: module after module, ``var NAME=WRAPPER(…);``, and last the
    list of kinds. A module is left out where nothing that stays has its name."""
    required, imported, listed = (each.search(whole) for each in (_REQUIRED, _IMPORTED, _REGISTERED))
    if not (required and imported and listed):
        return whole
    begins = re.finditer(rf";(?=var [\w$]+={required[1]}\((?:\([\w$,]*\)|[\w$]+)=>\{{)", whole)
    cuts = [match.end() for match in begins if match.end() < listed.start()]
    parts = [whole[: cuts[0]]]
    for begin, end in pairwise([*cuts, len(whole)]):
        # What begins like a module within another one is no module.
        if len(parts) > 1 and parts[-1].count("{") > parts[-1].count("}"):
            parts[-1] += whole[begin:end]
        else:
            parts.append(whole[begin:end])
    named = re.compile(rf"([\w$]+)=(?:{required[1]}|{imported[1]})\((?:\([\w$,]*\)|[\w$]+)=>\{{")
    place = {name: at for at, part in enumerate(parts) for name in named.findall(part)}
    kinds = [named.findall(part)[0] for kind in KINDS for part in parts if f'"trace",name:"{kind}"' in part]
    if len(kinds) != len(KINDS):
        return whole
    parts[-1] = parts[-1].replace(listed[0], ",".join(f"{name}()" for name in kinds))
    reached, kept = {0, len(parts) - 1}, set[int]()
    while reached:
        kept.add(at := reached.pop())
        reached |= {place[word] for word in set(re.findall(r"[\w$]+", parts[at])) & place.keys()} - kept
    return "".join(parts[at] for at in sorted(kept))
