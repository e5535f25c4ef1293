"""The score of steady states against the steps that a trace names."""

from benchmarks.program.periods import found_in, table


def trace(steps: int, grids: int = 1) -> list:
    """Steps of three kernels, each queued by a call; ``grids``: how many grids take turns."""
    events = []
    for step in range(steps):
        events.append({"ph": "X", "name": f"ProfilerStep#{step}", "ts": 100 * step, "dur": 100, "args": {}})
        for place, name in enumerate(("a", "b", "a")):
            number = 3 * step + place
            call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 100 * step + place, "dur": 1}
            events.append({**call, "args": {"correlation": number}})
            grid = [step % grids + 1 if name == "b" else 1, 1, 1]
            kernel = {"ph": "X", "cat": "kernel", "name": name, "ts": 100 * step + 10 * place, "dur": 9}
            events.append({**kernel, "args": {"correlation": number, "grid": grid}})
    return events


def test_steps_are_found_by_kernels_and_by_names_where_grids_change() -> None:
    same, changing = found_in("same", trace(5)), found_in("changing", trace(5, grids=5))
    assert same.right and not same.by_names
    assert changing.right and changing.by_names
    text = table([same, changing])
    assert "| same | 15 | 5 | 5 of 3 | names and grids | 100 |" in text
    assert "| changing | 15 | 5 | 5 of 3 | names | 100 |" in text


def test_a_sampled_trace_has_none() -> None:
    events = trace(2)
    for place, event in enumerate(event for event in events if event.get("cat") == "kernel"):
        event["name"] = f"kernel {place}"
    found = found_in("sampled", events)
    assert found.steady is None and not found.right
    assert "| sampled | 6 | 2 | none | names |  |" in table([found])
