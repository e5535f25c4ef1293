"""What ``ncubble advise`` says of a launch whose account is at hand: that is half of the work."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any


def advice_of(launch: Any, account: Any | None) -> dict[str, Any]:
    """The members of ``analysis.advise.advise`` that pages show: stages, stages_from, depths, fixes, notes."""
    from ncubble.analysis.diagnosis.advise import _notes, predict_all
    from ncubble.analysis.diagnosis.diagnose import diagnose
    from ncubble.analysis.diagnosis.gains import fixes
    from ncubble.analysis.model.pipeline import pipeline_of

    now = pipeline_of(launch, account, None)
    diagnosis = diagnose(launch, account)
    return {
        "stages": now.stages,
        "stages_from": now.stages_from if now.stages else None,
        "depths": {str(depth): asdict(told) if told else None for depth, told in predict_all(now).items()},
        "fixes": [asdict(fix) for fix in fixes(launch, account, diagnosis)],
        "notes": [*_notes(now, account), *diagnosis.warnings],
    }
