"""Members of a launch that are written into the arguments of its kernels."""

from __future__ import annotations

from typing import Any

from ncubble.analysis.ablation.result import Ablation
from ncubble.analysis.diagnosis.brief import brief
from ncubble.analysis.diagnosis.results import CONTRADICTIONS
from ncubble.analysis.kineto.matching import AccountedLaunch

_OF_VERDICT = {"launch": "launch", "cause": "verdict", "disease": "disease"}
_OF_CAUSE = ("how", "gain_pct", "gain_from_to", "fix")


def account_words(profiled: AccountedLaunch, ablation: Ablation | None, dashboard: str) -> dict[str, Any]:
    """The account of a launch in few members, percent of its elapsed cycles: cause, share of each
    part, tensor busy, gain, where, address, and its page in the ``dashboard`` at that address."""
    verdict, page = profiled.verdict, f"{dashboard}/kernel/{profiled.launch.report.key}/{profiled.launch.number}"
    try:
        answer = brief(profiled.launch, verdict, ablation)
    except CONTRADICTIONS:  # impossible values: the verdict is still known
        answer = {"launch": verdict.address, "verdict": verdict.cause, "account_pct": verdict.account or {}}
    causes: list[dict[str, Any]] = answer.get("causes", [])
    first = next((cause for cause in causes if cause["cause"] == answer["verdict"]), {})
    tensor = verdict.tensor_elapsed_pct
    return {
        **{name: answer[key] for name, key in _OF_VERDICT.items() if key in answer},
        **{name: first[name] for name in _OF_CAUSE if name in first},
        **({"where": first["where"][0]} if first.get("where") else {}),
        **({"tensor_busy_pct": round(tensor, 1)} if tensor is not None else {}),
        "account_pct": answer.get("account_pct", {}),
        **({"profiled_us": answer["time_us"]} if "time_us" in answer else {}),
        **({"doubts": answer["doubts"]} if "doubts" in answer else {}),
        "page": page,
    }
