"""Which engine of a GPU did each piece of work, and how much of the time it was busy. Pure
functions over activity."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ncubble.analysis.streams.records import DOWN, NONE, ON_DEVICE, PAGEABLE, PEER, UP, WORK

SMS, H2D, D2H = "SMs", "H2D", "D2H"
P2P, D2D, OTHER = "P2P", "D2D copy", "other copy"
ENGINES = (H2D, SMS, D2H, P2P, D2D, OTHER)
COMPUTE, COPY_CHANNEL = 1, 2
"""CUPTI's channel types: the hardware queue of a copy or set."""
_DIRECTION = {UP: H2D, 3: H2D, DOWN: D2H, 4: D2H, PEER: P2P, ON_DEVICE: D2D, 5: D2D, 6: D2D, 7: D2D}


def work_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Kernels, copies and sets, with ``engine`` and ``pageable``, in order of start.

    Kernels run on the SMs, and so do sets and copies within the device that went through the
    compute channel, which is how CUPTI tells that the driver did them by a kernel. Where it tells
    no channel, sets count for the SMs. A whole graph (``graph``) is a row only where its nodes are
    not told apart.
    """
    work = rows[rows["kind"].isin(WORK)].copy()
    kind, channel = work["kind"].to_numpy(), work["channel"].to_numpy()
    engine = np.array([_DIRECTION.get(flags, OTHER) for flags in work["flags"].tolist()], dtype=object)
    engine = np.where((kind == "copy") & np.isin(engine, (D2D, OTHER)) & (channel == COMPUTE), SMS, engine)
    engine = np.where(kind == "set", np.where(channel == COPY_CHANNEL, D2D, SMS), engine)
    work["engine"] = np.where(np.isin(kind, ("kernel", "graph")), SMS, engine)
    work["pageable"] = (kind == "copy") & ((work["source"] == PAGEABLE) | (work["target"] == PAGEABLE))
    return work.reset_index(drop=True)


def devices(work: pd.DataFrame) -> list[tuple[int, int]]:
    """Process and device of all that worked, in order: numbers of devices mean nothing beyond a
    process."""
    pairs = work[["process", "device"]].drop_duplicates().sort_values(["process", "device"])
    return [(int(process), int(device)) for process, device in pairs.itertuples(index=False)]


def ways(work: pd.DataFrame) -> list[str]:
    """From which device to which each copy between devices goes; "" for all other work."""
    pairs = zip(work["engine"].tolist(), work["extra"].tolist(), strict=True)
    return [f" from GPU {ends >> 32} to GPU {ends & 0xFFFFFFFF}" if engine == P2P else "" for engine, ends in pairs]


def lanes_of(work: pd.DataFrame, prefix: str = "", rows: bool = False) -> pd.DataFrame:
    """Intervals in the format of ``analysis.lanes``: a lane per engine and stream, grouped by
    engine.

    ``tag`` says what the work is. ``prefix`` goes before every lane and group, where there are
    several devices; ``rows`` adds a column with the place in ``work``.
    """
    streams = [f"stream {number}" if number != NONE else "stream ?" for number in work["stream"].tolist()]
    frame = pd.DataFrame({"lane": streams, "group": [prefix + engine for engine in work["engine"].tolist()]})
    frame["start_ns"] = work["start_ns"].to_numpy(float)
    frame["end_ns"] = work["end_ns"].to_numpy(float)
    frame["tag"] = tags(work)
    if rows:
        frame["row"] = np.arange(len(work))
    order = {prefix + name: place for place, name in enumerate(ENGINES)}
    ranked = frame.assign(rank=frame["group"].map(order)).sort_values(["rank", "lane", "start_ns"], kind="stable")
    return ranked.drop(columns="rank").reset_index(drop=True)


def tags(work: pd.DataFrame) -> list[str]:
    """What each piece of work is, in a few words; kernels by the name of their function."""
    short = {name: short_name(name) for name in work["name"].unique().tolist()}
    columns = (work[column].tolist() for column in ("kind", "name", "engine", "pageable"))
    words = []
    for kind, name, engine, pageable, way in zip(*columns, ways(work), strict=True):
        if kind == "kernel":
            words.append(short[name])
        elif kind == "copy":
            words.append(f"{engine.removesuffix(' copy')} copy{way}{', pageable' if pageable else ''}")
        else:
            words.append(kind)
    return words


def short_name(name: str, most: int = 60) -> str:
    """A kernel's function without template arguments, parameters and namespaces."""
    base = name.replace("(anonymous namespace)::", "").split("<")[0].split("(")[0].split("::")[-1].strip() or name
    text = base[:most]
    # Tags that begin with "wait" mark time in which a lane is blocked (analysis.lanes).
    return f"kernel {text}" if text.lower().startswith("wait") else text
