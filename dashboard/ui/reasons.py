"""Stall reasons: what each means, and how it is drawn. Plain data; hues follow the parts that a
reason mostly feeds."""

from __future__ import annotations

from ncubble.analysis.account.palette import Style

REASONS: dict[str, Style] = {
    "selected": Style("selected", "#15805f", "", "The warp issued an instruction: no stall."),
    "long_scoreboard": Style(
        "long scoreboard", "#cf4307", "", "Waits for a result of global, local or texture memory, or of a copy."
    ),
    "lg_throttle": Style("LG throttle", "#cf4307", "x", "The queue for global and local memory instructions is full."),
    "short_scoreboard": Style(
        "short scoreboard",
        "#ad5f19",
        "/",
        "Waits for a result of shared memory, of a special function or of a barrier.",
    ),
    "mio_throttle": Style("MIO throttle", "#c98200", "/", "The queue for shared memory and special functions is full."),
    "tex_throttle": Style("TEX throttle", "#c98200", "x", "The queue for texture instructions is full."),
    "barrier": Style("barrier", "#b54aa2", "", "Waits for other warps of its CTA at a barrier."),
    "membar": Style("membar", "#b54aa2", "x", "Waits for its own stores at a memory fence."),
    "gmma": Style("GMMA", "#5aa052", "/", "Waits for a warpgroup's matrix product."),
    "warpgroup_arrive": Style("warpgroup arrive", "#5aa052", "x", "Waits for its warpgroup before a matrix product."),
    "math_pipe_throttle": Style("math pipe throttle", "#2393a8", "", "The math pipe that it needs is taken."),
    "wait": Style("wait", "#8a5ecb", "|", "A fixed latency between two dependent instructions."),
    "dispatch_stall": Style("dispatch stall", "#8a5ecb", "x", "The dispatcher held the instruction back."),
    "not_selected": Style("not selected", "#7a8fe0", "-", "Was ready, but another warp issued."),
    "branch_resolving": Style("branch resolving", "#4a90d9", "/", "Waits for the target of a branch."),
    "no_instructions": Style("no instruction", "#557a9a", "x", "The next instruction was not fetched yet."),
    "no_instruction": Style("no instruction", "#557a9a", "x", "The next instruction was not fetched yet."),
    "imc_miss": Style("IMC miss", "#557a9a", "/", "Waits for a constant that is not in its cache."),
    "drain": Style("drain", "#a8809a", "+", "Waits for its last stores before it ends."),
    "sleeping": Style("sleeping", "#8a6d5c", "/", "All threads of the warp sleep."),
    "misc": Style("misc", "#858d96", "/", "A reason without a name."),
}
OTHER = Style("other reasons", "#858d96", "", "All other reasons.")


def reason_style(reason: str) -> Style:
    """How a reason is drawn; one that is not known keeps its name, with spaces."""
    if reason in REASONS:
        return REASONS[reason]
    return Style(reason.replace("_", " "), OTHER.color, "+", "A stall reason unknown to ncubble.")
