"""Stall reasons: what each means, and how it is drawn. Plain data; hues follow the parts that a reason mostly feeds."""

from __future__ import annotations

from ncubble.analysis.account.palette import Part

REASONS: dict[str, Part] = {
    "selected": Part("selected", "#15805f", "", "The warp issued an instruction: no stall."),
    "long_scoreboard": Part(
        "long scoreboard", "#cf4307", "", "Waits for a result of global, local or texture memory, or of a copy."
    ),
    "lg_throttle": Part("LG throttle", "#cf4307", "x", "The queue for global and local memory instructions is full."),
    "short_scoreboard": Part(
        "short scoreboard",
        "#ad5f19",
        "/",
        "Waits for a result of shared memory, of a special function or of a barrier.",
    ),
    "mio_throttle": Part("MIO throttle", "#c98200", "/", "The queue for shared memory and special functions is full."),
    "tex_throttle": Part("TEX throttle", "#c98200", "x", "The queue for texture instructions is full."),
    "barrier": Part("barrier", "#b54aa2", "", "Waits for other warps of its CTA at a barrier."),
    "membar": Part("membar", "#b54aa2", "x", "Waits for its own stores at a memory fence."),
    "gmma": Part("GMMA", "#5aa052", "/", "Waits for a warpgroup's matrix product."),
    "warpgroup_arrive": Part("warpgroup arrive", "#5aa052", "x", "Waits for its warpgroup before a matrix product."),
    "math_pipe_throttle": Part("math pipe throttle", "#2393a8", "", "The math pipe that it needs is taken."),
    "wait": Part("wait", "#8a5ecb", "|", "A fixed latency between two dependent instructions."),
    "dispatch_stall": Part("dispatch stall", "#8a5ecb", "x", "The dispatcher held the instruction back."),
    "not_selected": Part("not selected", "#7a8fe0", "-", "Was ready, but another warp issued."),
    "branch_resolving": Part("branch resolving", "#4a90d9", "/", "Waits for the target of a branch."),
    "no_instructions": Part("no instruction", "#557a9a", "x", "The next instruction was not fetched yet."),
    "no_instruction": Part("no instruction", "#557a9a", "x", "The next instruction was not fetched yet."),
    "imc_miss": Part("IMC miss", "#557a9a", "/", "Waits for a constant that is not in its cache."),
    "drain": Part("drain", "#a8809a", "+", "Waits for its last stores before it ends."),
    "sleeping": Part("sleeping", "#8a6d5c", "/", "All threads of the warp sleep."),
    "misc": Part("misc", "#858d96", "/", "A reason without a name of its own."),
}
OTHER = Part("other reasons", "#858d96", "", "All reasons that are not drawn by themselves.")


def reason_style(reason: str) -> Part:
    """How a reason is drawn; one that is not known keeps its name, with spaces."""
    if reason in REASONS:
        return REASONS[reason]
    return Part(reason.replace("_", " "), OTHER.color, "+", "A stall reason that ncubble has no words for.")
