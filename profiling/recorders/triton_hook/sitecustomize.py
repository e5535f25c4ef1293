"""Tries one launch of a Triton kernel with other settings, inside the program that makes it.

Python imports this file at its start where its folder is on PYTHONPATH. It needs only the standard
library, and Triton and PyTorch of the program, so that the program may use any interpreter. It
waits for the chosen launch, makes it as the program asked, then serves ``triton.py`` over a socket
(one JSON object a line): it compiles, checks and times the launch with other settings, on copies of
its tensors. Everything is as it was when the program goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.abc
import importlib.util
import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

NAMES = ("SOCKET", "WINDOW", "KERNEL", "WITHOUT", "SKIP", "COUNT")
SOCKET, WINDOW, KERNEL, WITHOUT, SKIP, COUNT = (f"NCUBBLE_TRY_{name}" for name in NAMES)
"""Where the parent listens, or, for a profile, that the launch stands between cudaProfilerStart and
cudaProfilerStop; which launch."""
GUARD_B = 16 << 20
"""At most so many bytes lie before and behind each copy, so that a launch that reads or writes
beyond its tensors harms nothing, and shows."""
GUARD = 0xA5
HANG_S = 60
"""A launch that has not ended by then never does: the process ends with ``HUNG``."""
HUNG = 124
WARPS = 4
"""Triton's default."""
COMPILE_S = 60
"""Seconds for compiling all settings; Triton has been seen to compile one for ever."""
ADDRESSES_B, LEAST_ADDRESS = 1 << 20, 1 << 32
"""Tensors of 64-bit integers up to this size may hold addresses of other tensors; smaller numbers
are none."""
CHUNK, OTHER = 1 << 24, 1e9
"""Elements that are compared at a time; the difference of results that cannot be compared."""
L2_TIMES, FLUSHES, HEAD_START = 4, 2, 10
"""A buffer of so many times L2 is written before each timed launch, so many times; and more often
before the first."""


def _next_sitecustomize() -> None:
    """Import the sitecustomize that this one hides."""
    ours = os.path.dirname(os.path.abspath(__file__))
    kept = list(sys.path)
    sys.path[:] = [path for path in kept if os.path.abspath(path or ".") != ours]
    module = sys.modules.pop("sitecustomize", None)
    try:
        if importlib.util.find_spec("sitecustomize") is not None:
            importlib.import_module("sitecustomize")
    finally:
        if module is not None:
            sys.modules.setdefault("sitecustomize", module)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module that was just imported."""

    def __init__(self, patches: dict[str, Callable[[Any], None]]) -> None:
        self._patches = patches

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        patch = self._patches.pop(name, None)
        if patch is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class _State:
    """What was seen so far. ``tuning``: inside a search of ``triton.autotune``; ``busy``: inside
    our own launches."""

    tuning = 0
    busy = False
    seen = 0
    lock = threading.Lock()


def _patch_autotuner(module: Any) -> None:
    bench = module.Autotuner._bench

    def _bench(self: Any, *args: Any, **kwargs: Any) -> Any:
        _State.tuning += 1
        try:
            return bench(self, *args, **kwargs)
        finally:
            _State.tuning -= 1

    module.Autotuner._bench = _bench


def _patch_jit(module: Any) -> None:
    run = module.JITFunction.run
    pattern, without = re.compile(os.environ.get(KERNEL, "")), os.environ.get(WITHOUT)
    told = set[str]()
    first = int(os.environ.get(SKIP, "0"))
    last = first + int(os.environ.get(COUNT, "1"))

    def watched(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        name = self.fn.__name__
        left_out = without and pattern.search(name) and re.search(without, name)
        if left_out and name not in told:
            told.add(name)
            with contextlib.suppress(OSError, KeyError), contextlib.closing(_Line()) as line:
                line.tell(refused=f"{name} is left out (--without)")
                line.ask()  # until it was heard
        if warmup or _State.busy or _State.tuning or left_out or not pattern.search(name):
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)
        with _State.lock:
            number, _State.seen = _State.seen, _State.seen + 1
        if not first <= number < last:
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)
        _State.busy = True
        try:
            if WINDOW in os.environ:
                return _in_window(lambda: run(self, *args, grid=grid, warmup=warmup, **kwargs))
            return _serve(run, self, args, grid, kwargs, number)
        finally:
            _State.busy = False

    module.JITFunction.run = watched


def _in_window(launch: Callable[[], Any]) -> Any:
    import torch

    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    made = launch()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    return made


class _Line:
    """JSON objects over a socket, one a line."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(os.environ[SOCKET])
        self._lines = self._socket.makefile("r", encoding="utf-8")

    def tell(self, **members: Any) -> None:
        self._socket.sendall((json.dumps(members) + "\n").encode())

    def ask(self) -> dict[str, Any]:
        """The next request; ``end`` where nobody asks any more."""
        line = self._lines.readline()
        return json.loads(line) if line else {"do": "end"}

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def _serve(run: Any, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any], number: int) -> Any:
    """Make the launch, then whatever is asked for."""
    import torch

    def launched() -> Any:
        return run(kernel, *args, grid=grid, warmup=False, **kwargs)

    try:
        line = _Line()
    except OSError:
        return launched()  # nobody listens any more
    try:
        if torch.cuda.is_current_stream_capturing():
            line.tell(refused="it is captured into a CUDA graph: run the program without graphs")
            return launched()
        try:
            trial = _Trial(run, kernel, args, grid, kwargs)
        except Exception as error:
            line.tell(refused=_words(error))
            return launched()
        made = launched()  # an exception here is the program's own
        try:
            trial.expect()
            line.tell(launch={**trial.facts(made), "number": number})
            while (request := line.ask())["do"] != "end":
                line.tell(**_answer(trial, request))
        except Exception as error:
            if _fatal(error):
                raise
            with contextlib.suppress(OSError):
                line.tell(refused=_words(error))
        trial.restore()
        return made
    finally:
        line.close()


def _answer(trial: _Trial, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request; what went wrong is one, unless it ended the CUDA context."""
    try:
        answer: dict[str, Any] = getattr(trial, "do_" + request.pop("do"))(**request)
        return answer
    except Exception as error:
        if _fatal(error):
            raise
        return {"refused": _words(error)}


def _fatal(error: Exception) -> bool:
    """Whether nothing can be launched any more: the program ends, and runs again without it."""
    return "CUDA error" in str(error)


class _Memory:
    """Bytes of the GPU at an address, as PyTorch reads them."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 2}


class _Region:
    """Memory that the launch may write: an allocation of a tensor, of which ``work`` is a copy
    between guards; or one whose address a tensor holds, which is used in place."""

    def __init__(self, torch: Any, whole: Any, *, in_place: bool, roomy: bool) -> None:
        self.whole, self._torch, self.in_place = whole, torch, in_place
        self.before = whole.clone() if roomy else whole.cpu()
        self.expected: Any = whole
        self.changed = False
        size = whole.numel()
        self.guard = 0 if in_place else min(GUARD_B, max(1 << 20, -(-size // 512) * 512))
        self.work = whole if in_place else torch.empty(2 * self.guard + size, dtype=torch.uint8, device=whole.device)

    @property
    def inner(self) -> Any:
        return self.work[self.guard : self.guard + self.whole.numel()]

    def expect(self) -> None:
        """What the program's launch left is the result to compare with."""
        if self.in_place:
            self.expected = self.whole.clone()
        self.changed = not self._torch.equal(self.whole.to(self.before.device), self.before)

    def rewind(self) -> None:
        """Before a timed launch: what launches change is as the program's launch found it."""
        if self.changed and self.before.is_cuda:
            self.inner.copy_(self.before)

    def reset(self) -> None:
        self.inner.copy_(self.before)
        if self.guard:
            self.work[: self.guard].fill_(GUARD)
            self.work[-self.guard :].fill_(GUARD)

    def overrun(self) -> bool:
        if not self.guard:
            return False
        ends = (self.work[: self.guard], self.work[-self.guard :])
        return any(bool((end != GUARD).any()) for end in ends)

    def same(self) -> bool:
        return bool(self._torch.equal(self.inner, self.expected))

    def restore(self) -> None:
        if self.in_place:
            self.whole.copy_(self.expected)


class _Trial:
    """A launch that can be made again. ``settings`` are meta-parameters and compiler options by
    name."""

    def __init__(self, run: Any, kernel: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]) -> None:
        import torch

        self._torch, self._run, self._kernel, self._grid = torch, run, kernel, grid
        names = list(kernel.arg_names)
        self._positional = names[: len(args)]
        self._bound = {**dict(zip(names, args)), **kwargs}
        self._given = dict(self._bound)
        self._tensors = list({id(tensor): tensor for tensor in self._found(list(self._bound.values()))}.values())
        self._regions: dict[int, _Region] = {}
        self._flush: Any = None
        torch.cuda.synchronize()
        storages = {tensor.untyped_storage().data_ptr(): tensor for tensor in self._tensors}
        total = sum(tensor.untyped_storage().nbytes() for tensor in storages.values())
        free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        if total + len(storages) * 2 * GUARD_B > free:
            raise MemoryError(f"its tensors hold {total:,} B, and {free:,} B are free to copy them")
        roomy = 2 * total + len(storages) * 2 * GUARD_B + (1 << 30) < free
        addresses = self._addresses()
        blocks = self._addressed(addresses)  # asked before our own tensors are there
        for base, tensor in storages.items():
            storage = tensor.untyped_storage()
            whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),))
            in_place = any(base <= address < base + storage.nbytes() for address in addresses)
            self._regions[base] = _Region(torch, whole, in_place=in_place, roomy=roomy)
        for address, size in blocks:
            whole = torch.as_tensor(_Memory(address, size), device="cuda")
            self._regions[address] = _Region(torch, whole, in_place=True, roomy=roomy)
        self._bound = {name: self._copied(value) for name, value in self._bound.items()}

    def _found(self, values: list[Any]) -> list[Any]:
        """All tensors on a GPU, also within tuples and descriptors."""
        found: list[Any] = []
        for value in values:
            if isinstance(value, self._torch.Tensor):
                found += [value] if value.is_cuda and value.untyped_storage().nbytes() else []
            elif isinstance(value, (tuple, list)):
                found += self._found(list(value))
            elif self._holds_tensor(value):
                found += self._found([value.base])
        return found

    def _holds_tensor(self, value: Any) -> bool:
        return isinstance(getattr(value, "base", None), self._torch.Tensor)

    def _addresses(self) -> list[int]:
        """What stands in small tensors of 64-bit integers, and may be an address."""
        torch = self._torch
        tables = [t for t in self._tensors if t.dtype in (torch.int64, torch.uint64) and t.nbytes <= ADDRESSES_B]
        values = {int(value) for table in tables for value in table.view(torch.int64).flatten().tolist()}
        return sorted(value for value in values if value >= LEAST_ADDRESS)

    def _addressed(self, addresses: list[int]) -> list[tuple[int, int]]:
        """Allocations (address, size) of which an address is known, beside those of arguments."""
        torch = self._torch
        if not addresses:
            return []
        blocks = [
            (block["address"], block["size"])
            for segment in torch.cuda.memory_snapshot()
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        ]
        known = {t.untyped_storage().data_ptr() for t in self._tensors}
        return [
            (at, size) for at, size in blocks if at not in known and any(at <= one < at + size for one in addresses)
        ]

    def _copied(self, value: Any) -> Any:
        """An argument, with tensors that lie in our copies."""
        torch = self._torch
        if isinstance(value, torch.Tensor) and value.is_cuda and value.untyped_storage().nbytes():
            region = self._regions[value.untyped_storage().data_ptr()]
            at = region.guard // value.element_size() + value.storage_offset()
            copy = torch.empty(0, dtype=value.dtype, device=value.device)
            return copy.set_(region.work.untyped_storage(), at, value.size(), value.stride())
        if isinstance(value, (tuple, list)):
            items = [self._copied(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if self._holds_tensor(value):
            if dataclasses.is_dataclass(value) and not isinstance(value, type):
                changed: dict[str, Any] = {"base": self._copied(value.base)}  # type: ignore[attr-defined]
                return dataclasses.replace(value, **changed)
            wrapped = object.__new__(type(value))
            wrapped.__dict__.update({**value.__dict__, "base": self._copied(value.base)})
            if "data" in wrapped.__dict__:
                wrapped.__dict__["data"] = wrapped.base.data
            return wrapped
        if (isinstance(value, torch.Tensor) and value.numel()) or hasattr(value, "tma_desc_cpu_ptr"):
            raise ValueError("an argument holds an address that cannot be copied")
        return value

    def expect(self) -> None:
        """Keep what the program's launch left."""
        for region in self._regions.values():
            region.expect()

    def restore(self) -> None:
        """Leave memory as the program's launch left it."""
        self._torch.cuda.synchronize()
        for region in self._regions.values():
            region.restore()

    def facts(self, made: Any) -> dict[str, Any]:
        """What the parent needs to choose settings."""
        torch, metadata = self._torch, made.metadata
        parameters = self._kernel.params
        values = {name: getattr(value, "value", value) for name, value in self._given.items()}
        for parameter in parameters:
            if parameter.has_default:
                values.setdefault(parameter.name, getattr(parameter.default, "value", parameter.default))
        constants = [parameter.name for parameter in parameters if parameter.is_constexpr]
        asm = made.asm.get("ttir", "")
        device = torch.cuda.get_device_properties(torch.cuda.current_device())
        return {
            "kernel": self._kernel.fn.__name__,
            "constants": {name: values[name] for name in constants if type(values.get(name)) is int},
            # Of a warp-specialized kernel the metadata counts the warps of all roles.
            "num_warps": self._given.get("num_warps") or WARPS,
            "num_stages": metadata.num_stages,
            "loops": asm.count("scf.for") + asm.count("scf.while"),
            "grid_follows": callable(self._grid),
            "device": device.name,
            "changed": any(region.changed for region in self._regions.values()),
            **self._resources(made),
        }

    def _resources(self, made: Any) -> dict[str, Any]:
        if hasattr(made, "result"):
            made = made.result()
        made._init_handles()
        return {"registers": made.n_regs, "spilled": made.n_spills, "shared_B": made.metadata.shared}

    def do_compile(self, settings: list[dict[str, Any]]) -> dict[str, Any]:
        """Compile each, some at a time; resources, or why it cannot be launched."""
        torch, device = self._torch, self._torch.cuda.current_device()
        waiting, made = list(enumerate(settings)), {}

        def work() -> None:
            torch.cuda.set_device(device)
            while True:
                try:
                    number, changed = waiting.pop(0)
                except IndexError:
                    return
                try:
                    made[number] = self._launch(changed, warmup=True)
                except Exception as error:
                    made[number] = error

        # Daemons: some compilations never end, and nothing can stop them.
        threads = [threading.Thread(target=work, daemon=True) for _ in range(min(32, os.cpu_count() or 1))]
        for thread in threads:
            thread.start()
        end = time.monotonic() + COMPILE_S
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        late = TimeoutError(f"compiling takes more than {COMPILE_S} s")
        return {"compiled": [self._compiled(one, made.get(number, late)) for number, one in enumerate(settings)]}

    def _compiled(self, changed: dict[str, Any], made: Any) -> dict[str, Any]:
        if isinstance(made, Exception):
            return {"refused": _words(made)}
        try:
            resources = self._resources(made)
        except Exception as error:
            return {"refused": _words(error)}
        return resources

    def _launch(self, changed: dict[str, Any], warmup: bool = False) -> Any:
        named = {**self._bound, **changed}
        first = [named.pop(name) for name in self._positional]  # as the program does: one may be called ``grid``
        return self._run(self._kernel, *first, grid=self._grid, warmup=warmup, **named)

    def do_check(self, changed: dict[str, Any]) -> dict[str, Any]:
        """Launch once from the memory that the program's launch found; how far its results are off,
        of the largest value, and whether it wrote beyond its tensors."""
        with _Watched():
            for region in self._regions.values():
                region.reset()
            try:
                self._launch(changed)
            except Exception as error:
                return {"refused": _words(error)}
            self._torch.cuda.synchronize()
        overrun = any(region.overrun() for region in self._regions.values())
        return {"difference": self._difference(), "overrun": overrun}

    def _difference(self) -> float:
        worst = 0.0
        other = {at: not region.same() for at, region in self._regions.items()}
        for tensor in self._tensors:
            if other.pop(tensor.untyped_storage().data_ptr(), False):
                worst = max(worst, self._relative(self._copied(tensor), tensor))
                other[tensor.untyped_storage().data_ptr()] = True
        for region in self._regions.values():
            if region.in_place and not region.same():
                pair = [
                    part[: part.numel() // 4 * 4].view(self._torch.int32) for part in (region.inner, region.expected)
                ]
                halves = [part.view(self._torch.float16) for part in pair]
                worst = max(
                    worst, min(self._relative(*halves), self._relative(*[p.view(self._torch.float32) for p in pair]))
                )
        return worst

    def _relative(self, found: Any, wanted: Any) -> float:
        """Largest difference of the largest finite value; a large number where other values are not
        finite."""
        torch, largest, off = self._torch, 0.0, 0.0
        pairs = zip(found.reshape(-1).split(CHUNK), wanted.reshape(-1).split(CHUNK))
        for own, other in pairs:
            if not other.numel():
                continue
            wide = torch.float32 if other.dtype.is_floating_point and other.element_size() < 4 else torch.float64
            own, other = (torch.view_as_real(part) if part.dtype.is_complex else part for part in (own, other))
            own, other = own.to(wide), other.to(wide)
            finite = torch.isfinite(other)
            if bool((torch.isfinite(own) != finite).any()):
                return OTHER
            largest = max(largest, float(torch.where(finite, other, 0).abs().max()))
            off = max(off, float(torch.where(finite, own - other, 0).abs().max()))
        return off / largest if largest else (0.0 if off == 0 else OTHER)

    def do_time(self, settings: list[dict[str, Any]], rounds: int) -> dict[str, Any]:
        """Microseconds of each, in ``rounds`` turns over all, L2 flushed before each launch.

        Nothing waits between launches, and each follows two flushes, so that the CPU stays ahead of
        the GPU: else a launch would be timed with the gap before it.
        """
        torch = self._torch
        if self._flush is None:
            l2 = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
            self._flush = torch.empty(L2_TIMES * l2 // 4, dtype=torch.int32, device="cuda")
        for region in self._regions.values():
            region.reset()
        spans: list[list[tuple[Any, Any]]] = [[] for _ in settings]
        with _Watched(HANG_S * (1 + rounds * len(settings))):
            for _ in range(HEAD_START):
                self._flush.zero_()
            for number in range(rounds):
                turn = list(zip(settings, spans))
                for changed, own in turn[:: 1 if number % 2 else -1]:
                    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    for region in self._regions.values():
                        region.rewind()
                    for _ in range(FLUSHES):
                        self._flush.zero_()
                    begin.record()
                    self._launch(changed)
                    end.record()
                    own.append((begin, end))
            clock = _sm_mhz(torch)  # while the queue drains
            torch.cuda.synchronize()
        times = [[round(begin.elapsed_time(end) * 1e3, 3) for begin, end in own] for own in spans]
        return {"times_us": times, "sm_mhz": clock}


class _Watched:
    """Ends the process where the block does not end in time."""

    def __init__(self, seconds: float = HANG_S) -> None:
        self._timer = threading.Timer(seconds, os._exit, [HUNG])
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *args: object) -> None:
        self._timer.cancel()


def _sm_mhz(torch: Any) -> int:
    """The SM clock; 0 where it cannot be asked."""
    try:
        return int(torch.cuda.clock_rate())
    except Exception:
        return 0


def _words(error: Exception) -> str:
    """The last line that says something of an exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:300]


if SOCKET in os.environ or WINDOW in os.environ:
    sys.meta_path.insert(
        0, _AfterImport({"triton.runtime.jit": _patch_jit, "triton.runtime.autotuner": _patch_autotuner})
    )
_next_sitecustomize()
