"""Triton kernels as public libraries ship them: a third set of bases, which nobody here wrote or tuned.

The libraries lie below $NCUBBLE_LIBRARIES, a folder for each, and are no part of this repository; they
were read at the commits in ``LIBRARIES``. How kernels were chosen, before anything was launched: the
files of a library's folders of kernels with ``@triton.jit`` in the order of the SHA-256 of their paths,
in two classes: those whose text has ``tl.dot`` or ``quant`` (``PRODUCTS``), and the others (``ROWS``).
Of each class the first two files; of each file the kernel that its first entry point launches, and that
of its backward or inverse. Passed over is a file for other vendors' GPUs, one whose entry point
launches no kernel or the same one twice, needs a scheduler, more GPUs or compiled code, writes files,
is faulty by its own comment, cannot be imported or compiled with Triton 3.6, takes less than 20 us in
the sizes of published models, or takes num_warps as a constant of its own.

``fair`` is the launch that a library makes; of an autotuned kernel, with the first of its
configurations. ``bad`` is drawn of it (``plan.worse_launch``). A library's own launch is the reference:
results of changes are compared with its results, and these with nothing else.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from packaging.version import Version

if TYPE_CHECKING:
    import torch

DEVICE = "cuda"


@dataclass(frozen=True)
class Library:
    """``root`` is a path below its folder from which ``package`` is imported. The first ``bare`` packages on
    the way to a module are imported without their ``__init__``, and ``absent`` ones not at all."""

    source: str
    root: str
    package: str
    bare: int = 9
    absent: tuple[str, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        return self.source.partition("@")[0].rpartition("/")[2]


LIBRARIES = {
    "applied": Library("meta-pytorch/applied-ai@2391954b19988bd76cf3c2ea84c1ce74b68d568b", "kernels/triton", ""),
    "attorch": Library("BobMcDear/attorch@67c2772baf33913ef51c2d1064f746ca17b63749", "", "attorch"),
    "bnb": Library("bitsandbytes-foundation/bitsandbytes@95f9af309d4d5793847169c39288dcd3fcbdf564",
                   "", "bitsandbytes.backends.triton"),
    "fla": Library("fla-org/flash-linear-attention@bc3b101dcb713ddc5bd8924b66754eb68b5ccf89", "", "fla", 1,
                   constants={"__version__": "0.5.2"}),
    "flash_attn": Library("Dao-AILab/flash-attention@0251105a2fb19d2957484b7f023cd8c115286ced", "", "flash_attn",
                          absent=("triton.ops",)),
    "liger": Library("linkedin/Liger-Kernel@ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c", "src", "liger_kernel.ops"),
    "lightllm": Library("ModelTC/lightllm@fc72ffab9a3455cfb571f22d45ab777cc29de0de", "", "lightllm"),
    "mamba": Library("state-spaces/mamba@e9594ce1c732d97440f0332fdc43170a2294dbfa", "", "mamba_ssm.ops.triton"),
    "sglang": Library("pypi/sglang@0.5.23", "", "sglang.kernels.ops", absent=("sglang.srt", "sglang.kernels.jit"),
                      constants={"is_hip": bool}),
    "unsloth": Library("unslothai/unsloth@015bdef0d94a241bcd94eec7a405b1700632180d", "", "unsloth.kernels",
        absent=("unsloth_zoo", "unsloth.bnb_availability", "unsloth.device_type"),
        constants={"DEVICE_TYPE": "cuda", "DEVICE_TYPE_TORCH": "cuda", "DEVICE_COUNT": 1, "Version": Version}),
    "xformers": Library("facebookresearch/xformers@ca6d2aa0d43241fc8a8dcd872debc2406160160d",
                        "", "xformers.ops._triton"),
}  # fmt: skip


class _Absent:
    """Stands for everything of a package that is not there: false, and callable."""

    def __bool__(self) -> bool:
        return False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # As a decorator it changes nothing.
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _AbsentModules:
    """Finds absent packages and their modules."""

    def __init__(self, names: Sequence[str], constants: Mapping[str, Any]) -> None:
        self._names, self._constants = names, constants

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if any(name == absent or name.startswith(f"{absent}.") for absent in self._names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = lambda name: self._constants.get(name, getattr(_Absent(), name))  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


@cache
def _prepared(name: str) -> Path:
    """Where a library is imported from."""
    library = LIBRARIES[name]
    root = Path(os.environ["NCUBBLE_LIBRARIES"]) / library.folder / library.root
    sys.path.insert(0, str(root))
    sys.meta_path.insert(0, _AbsentModules(library.absent, library.constants))  # type: ignore[arg-type]
    return root


def module(name: str, path: str) -> ModuleType:
    """A module of a library, ``path`` below its package."""
    library, root = LIBRARIES[name], _prepared(name)
    parts = f"{library.package}.{path}".strip(".").split(".")
    for end in range(1, min(len(parts), library.bare + 1)):
        package = ".".join(parts[:end])
        if package not in sys.modules:
            sys.modules[package] = made = ModuleType(package)
            made.__path__ = [str(root.joinpath(*parts[:end]))]
            vars(made).update(library.constants)
    return importlib.import_module(".".join(parts))


# Inputs.


def _n(*shape: int, dtype: str = "bfloat16", scale: float = 1.0) -> torch.Tensor:
    """Normal numbers."""
    import torch

    return torch.randn(shape, device=DEVICE, dtype=torch.float32).mul_(scale).to(getattr(torch, dtype))


_h, _f, _fp8 = (partial(_n, dtype=dtype) for dtype in ("float16", "float32", "float8_e4m3fn"))


def _u(*shape: int) -> torch.Tensor:
    """Numbers from 0 to 1."""
    import torch

    return torch.rand(shape, device=DEVICE)


def _i(end: int, *shape: int, dtype: str = "int32") -> torch.Tensor:
    """Whole numbers from 0 to ``end`` - 1."""
    import torch

    return torch.randint(0, end, shape, device=DEVICE, dtype=getattr(torch, dtype))


def _e(*shape: int, dtype: str = "float16") -> torch.Tensor:
    import torch

    return torch.zeros(shape, device=DEVICE, dtype=getattr(torch, dtype))


def _tokens(batch: int, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Where tokens of each request lie in a cache, numbers of requests, and their lengths."""
    import torch

    places = torch.randperm(batch * length, device=DEVICE, dtype=torch.int32).view(batch, length)
    return places, torch.arange(batch, device=DEVICE, dtype=torch.int32), _e(batch, dtype="int32") + length


def _back(function: Callable[..., Any], *inputs: torch.Tensor, more: Sequence[Any] = ()) -> Callable[[], Any]:
    """The backward of a function of tensors, and of more that needs no gradient."""
    out = function(*(one.requires_grad_() for one in inputs), *more)
    out = out[0] if isinstance(out, tuple) else out
    grad = _f(*out.shape).to(out.dtype)
    return lambda: out.backward(grad)


@dataclass(frozen=True)
class Entry:
    """``make`` gets the module, and returns what launches ``kernel`` once."""

    name: str
    module: str
    kernel: str
    make: Callable[[Any], Callable[[], Any]]

    @property
    def library(self) -> str:
        return next(name for name in LIBRARIES if self.name.startswith(f"{name}_"))


def _liger_moe(m: Any) -> Callable[[], Any]:
    weights, experts = _u(4096, 64).topk(8)
    gate_up, down = _n(64, 2048, 2048, scale=0.02), _n(64, 2048, 1024, scale=0.02)
    return lambda: m.LigerFusedMoEFunction.apply(_n(4096, 2048), gate_up, down, experts.int(), weights)


def _mamba_step(m: Any) -> Callable[[], Any]:
    batch, heads, dim, state, angles = 128, 64, 64, 128, 32
    q, k, v, z = _n(batch, 1, state), _n(batch, 1, state), _n(batch, heads, dim), _n(batch, heads, dim)
    adt, dt, trap = -_u(batch, heads), _u(batch, heads), _u(batch, heads)
    biases, angle = (_f(heads, state), _f(heads, state)), _f(batch, heads, angles)
    states = (_f(batch, heads, angles), _f(batch, heads, dim, state), _f(batch, heads, state), _n(batch, heads, dim))
    return lambda: m.mamba3_siso_step(q, k, v, adt, dt, trap, *biases, angle, _f(heads), z, states)


def _mamba_update(m: Any) -> Callable[[], Any]:
    batch, heads, dim, state = 128, 80, 64, 128
    a, dt, bias = (-_u(heads, 1, 1)).expand(-1, dim, state), _n(batch, heads, 1).expand(-1, -1, dim), _f(heads, 1)
    args = (_n(batch, heads, dim, state), _n(batch, heads, dim), dt, a, _n(batch, 8, state), _n(batch, 8, state))
    more = {"D": _f(heads, 1).expand(-1, dim), "dt_bias": bias.expand(-1, dim), "dt_softplus": True}
    return lambda: m.selective_state_update(*args, **more)


def _mamba_rotary(m: Any) -> Callable[[], Any]:
    q, k, state, angle = _n(512, 4, 64, 128), _n(512, 4, 64, 128), _f(512, 64, 32), _f(512, 64, 32)
    return lambda: m.apply_rotary_qk_inference_fwd(q, k, state, angle, _u(512, 64), _f(4, 64, 128), _f(4, 64, 128))


def _light_int4(m: Any) -> Callable[[], Any]:
    weights, zeros = _i(2**31 - 1, 512, 11008), _i(2**31 - 1, 32, 1376)
    return partial(m.matmul_dequantize_int4_gptq, _h(256, 4096), weights, _h(32, 11008, scale=0.01), zeros, 128)


def _light_gqa(m: Any) -> Callable[[], Any]:
    q, k, v = _h(64, 32, 128), _h(64 * 2048, 8, 128), _h(64 * 2048, 8, 128)
    return partial(m.gqa_decode_attention_fwd, q, k, v, _e(64, 32, 128), *_tokens(64, 2048))


def _light_scores(m: Any) -> Callable[[], Any]:
    (places, numbers, lengths), scores = _tokens(32, 2048), _e(32, 32 * 2048)
    q, k = _h(32, 32, 128), _h(32 * 2048, 32, 128)
    return partial(m.token_att_fwd, q, k, scores, _u(32), places, numbers, numbers * 2048, lengths, 2048)


def _light_stage1(m: Any) -> Callable[[], Any]:
    outs = _e(32, 32, 8, 128, dtype="float32"), _e(32, 32, 8, dtype="float32")
    q, k, v = _h(32, 32, 128), _h(32 * 2048, 8, 128), _h(32 * 2048, 8, 128)
    return partial(m.flash_decode_stage1, q, k, v, *_tokens(32, 2048), 2048, *outs, 256)


def _xformers_qkv(m: Any) -> Callable[[], Any]:
    widths = [4096, 1024, 1024]
    weights, outs = [_h(4096, width) for width in widths], [_e(4096, width) for width in widths]
    return partial(m._launch_triton_matmul, [[_h(4096, 4096)]], [weights], [outs], [4096], widths, [4096])


def _index(m: Any, back: bool) -> Callable[[], Any]:
    import torch

    rows, index = _h(32768, 4096), torch.randperm(32768, device=DEVICE)[:16384]
    picked = _h(16384, 4096)
    if back:
        return partial(m.index_select_cat_bwd, rows.zero_(), index, picked)
    return partial(m.index_select_cat_fwd, picked.view(-1), rows, index)


def _bnb_quantize(m: Any) -> Callable[[], Any]:
    size = 4096 * 11008
    absmax, out = _e(size // 64, dtype="float32"), _e(size // 2, dtype="uint8")
    return partial(m.quantize_4bit_blockwise_triton, _h(size), 64, "nf4", size // 64, absmax, size, out)


def _bnb_dequantize(m: Any) -> Callable[[], Any]:
    packed, absmax, out = _i(256, 4096 * 5504, dtype="uint8"), _u(4096 * 172), _e(4096, 11008)
    return partial(m.dequantize_4bit_impl, packed, absmax, 64, "nf4", out.dtype, out)


def _bnb_adam(m: Any) -> Callable[[], Any]:
    grad, weight, first, second = _f(4096, 4096), _f(4096, 4096), _f(4096, 4096), _u(4096, 4096)
    numbers = (0.0, 0.0, 0.9, 0.999, 0.0, 0.0, 1e-8, 0.01, 10, 1e-3)
    return partial(m.optimizer_update_32bit_impl, "adam", grad, weight, first, second, None, *numbers)


def _sglang_sum(m: Any) -> Callable[[], Any]:
    import torch

    m.get_device_capability = torch.cuda.get_device_capability
    return partial(m.moe_fused_mul_sum, _n(4096, 8, 4096), _u(4096, 8))


_QKV, _CE, _ATTENTION = (2, 16, 4096, 64), "ops.triton.cross_entropy", "multi_head_attention_kernels"

PRODUCTS: tuple[Entry, ...] = (
    Entry("liger_mhc_norm", "mhc", "_mhc_mm_norm_fwd_kernel",
          lambda m: partial(m.mhc_mm_norm_fwd, _n(8192, 16384), _n(16384, 24), 1e-6)),
    Entry("liger_moe_up", "fused_moe", "_fused_up_proj_swiglu_kernel", _liger_moe),
    Entry("fla_kda_dav", "ops.kda.chunk_bwd", "chunk_kda_bwd_kernel_dAv",
          lambda m: partial(m.chunk_kda_bwd_dAv, *(_n(4, 4096, 16, 128) for _ in range(4)), _n(4, 4096, 16, 64), 0.1)),
    Entry("fla_solve", "ops.utils.solve_tril", "merge_16x16_to_64x64_inverse_kernel",
          lambda m: partial(m.solve_tril, _f(4, 8192, 16, 64, scale=0.02).tril(-1))),
    Entry("unsloth_grouped", "moe.grouped_gemm.interface", "_grouped_gemm_forward_kernel",
          lambda m: partial(m.grouped_gemm_forward, _n(16384, 2048), _n(32, 1536, 2048, scale=0.02), 4,
                            _e(32, dtype="int32") + 512)),
    Entry("unsloth_fp8_blocks", "fp8", "_w8a8_block_fp8_matmul",
          lambda m: partial(m.w8a8_block_fp8_matmul_triton, _fp8(4096, 4096), _fp8(7168, 4096), _u(4096, 32),
                            _u(56, 32), [128, 128], _n(1).dtype)),
    Entry("mamba_siso_step", "mamba3.mamba3_siso_step", "mamba3_siso_step_kernel", _mamba_step),
    Entry("mamba_bmm", "ssd_bmm", "_bmm_chunk_fwd_kernel",
          lambda m: partial(m._bmm_chunk_fwd, _n(8, 4096, 8, 128), _n(8, 4096, 8, 128), 256, causal=True)),
    Entry("mamba_bmm_back", "ssd_bmm", "_bmm_chunk_bwd_kernel",
          lambda m: partial(m._bmm_chunk_bwd, _n(8, 4096, 8, 128), _n(8, 16, 8, 256, 256))),
    Entry("flash_attn_linear", "ops.triton.linear", "kernel_fwd",
          lambda m: partial(m.triton_linear_act, _h(4096, 4096), _h(11008, 4096), _h(11008), "squared_relu", True)),
    Entry("flash_attn_linear_back", "ops.triton.linear", "kernel_bwd",
          lambda m: partial(m.triton_dgrad_act, _h(4096, 11008), _h(11008, 4096), "squared_relu", _h(4096, 4096))),
    Entry("lightllm_int4", "common.basemodel.triton_kernel.dequantize_gemm_int4", "matmul4_kernel", _light_int4),
    Entry("lightllm_gqa", "models.llama.triton_kernel.gqa_decode_flashattention_nopad", "_fwd_kernel", _light_gqa),
    Entry("xformers_qkv", "tiled_matmul_kernels", "_xformers_tiled_matmul_kernel", _xformers_qkv),
    Entry("bnb_quantize", "kernels_4bit", "quantize_nf4_blockwise_kernel", _bnb_quantize),
    Entry("bnb_dequantize", "kernels_4bit", "dequant_nf4_kernel", _bnb_dequantize),
    Entry("bnb_adam", "kernels_optim", "_optimizer_update_2state_32bit_triton_kernel", _bnb_adam),
    Entry("applied_attention", "inference.torch_compile.flash_backward", "attn_fwd",
          lambda m: partial(m.attention, *(_h(2, 32, 2048, 128) for _ in range(3)), 0.088)),
    Entry("applied_stay", "inference.flash_attention.stay_attention", "stay_attention",
          lambda m: partial(m.flash_fn, *(_h(1, 32, 4096, 128, scale=0.1) for _ in range(3)))),
    Entry("attorch_linear", "linear_layer", "linear_forward_kernel",
          lambda m: partial(m.LinearAutoGrad.apply, _h(4096, 4096), _h(4096, 11008), _h(11008), "gelu")),
    Entry("attorch_attention", _ATTENTION, "_fwd_kernel",
          lambda m: partial(m._attention.apply, *(_h(*_QKV) for _ in range(3)), True, 0.125)),
    Entry("attorch_attention_back", _ATTENTION, "_bwd_kernel",
          lambda m: _back(m._attention.apply, *(_h(*_QKV) for _ in range(3)), more=(True, 0.125))),
    Entry("sglang_swiglu", "activation.minimax_m3_swiglu", "_swiglu_oai_kernel",
          lambda m: partial(m.swiglu_oai_split, _n(8192, 16384), 1.702, 1.0, 7.0)),
    Entry("sglang_int8_rows", "quantization.int8_kernel", "_per_token_quant_int8",
          lambda m: partial(m.per_token_quant_int8, _n(8192, 8192))),
)  # fmt: skip

ROWS: tuple[Entry, ...] = (
    Entry("liger_cross_entropy", "cross_entropy", "liger_cross_entropy_kernel",
          lambda m: partial(m.cross_entropy_forward, _n(4096, 32000).requires_grad_(),
                            _i(32000, 4096, dtype="int64"), None, -100, 0.0, 0.0, "mean", None, False)),
    Entry("liger_softmax", "softmax", "_softmax_single_block_forward_kernel",
          lambda m: partial(m._softmax_forward, _n(8192, 4096))),
    Entry("liger_softmax_back", "softmax", "_softmax_single_block_backward_kernel",
          lambda m: _back(m.LigerSoftmaxFunction.apply, _n(8192, 4096))),
    Entry("fla_pool", "ops.utils.pooling", "mean_pooling_fwd_kernel",
          lambda m: partial(m.mean_pooling_fwd, _n(4, 8192, 16, 128), 64)),
    Entry("fla_pool_back", "ops.utils.pooling", "mean_pooling_bwd_kernel",
          lambda m: partial(m.mean_pooling_bwd, _n(4, 128, 16, 128), 4, 8192, 64)),
    Entry("fla_layer_norm", "modules.layernorm", "layer_norm_fwd_kernel1",
          lambda m: partial(m.layer_norm_fwd, _n(8192, 4096), _n(4096), _n(4096))),
    Entry("fla_layer_norm_back", "modules.layernorm", "layer_norm_bwd_kernel1",
          lambda m: partial(m.layer_norm_bwd, _n(8192, 4096), _n(8192, 4096), _n(4096), _n(4096), _f(8192), _u(8192))),
    Entry("unsloth_rms_norm", "rms_layernorm", "_rms_layernorm_forward",
          lambda m: partial(m.Fast_RMS_Layernorm.apply, _n(4, 2048, 4096), _n(4096), 1e-6, False)),
    Entry("unsloth_rms_norm_back", "rms_layernorm", "_rms_layernorm_backward",
          lambda m: _back(m.Fast_RMS_Layernorm.apply, _n(4, 2048, 4096), more=(_n(4096), 1e-6, False))),
    Entry("unsloth_swiglu", "swiglu", "_fg_kernel",
          lambda m: partial(m.swiglu_fg_kernel, _n(4, 2048, 11008), _n(4, 2048, 11008))),
    Entry("unsloth_swiglu_back", "swiglu", "_DWf_DW_dfg_kernel",
          lambda m: partial(m.swiglu_DWf_DW_dfg_kernel, *(_n(8192, 11008) for _ in range(3)))),
    Entry("mamba_state_update", "selective_state_update", "_selective_scan_update_kernel", _mamba_update),
    Entry("mamba_rotary_step", "mamba3.mamba3_mimo_rotary_step", "rotary_qk_inference_kernel", _mamba_rotary),
    Entry("flash_attn_rotary", "ops.triton.rotary", "rotary_kernel",
          lambda m: partial(m.apply_rotary, _n(4, 4096, 32, 128), _n(4096, 64), _n(4096, 64))),
    Entry("flash_attn_cross_entropy", _CE, "cross_entropy_fwd_kernel",
          lambda m: partial(m.cross_entropy_loss, _n(4096, 32000), _i(32000, 4096, dtype="int64"))),
    Entry("flash_attn_cross_entropy_back", _CE, "cross_entropy_bwd_kernel",
          lambda m: _back(m.cross_entropy_loss, _n(4096, 32000), more=(_i(32000, 4096, dtype="int64"),))),
    Entry("lightllm_scores", "models.bloom.triton_kernel.token_attention_nopad_att1", "_fwd_kernel_token_att1",
          _light_scores),
    Entry("lightllm_stage1", "models.llama.triton_kernel.flash_decoding_stage1", "_fwd_kernel_flash_decode_stage1",
          _light_stage1),
    Entry("xformers_index", "k_index_select_cat", "index_select_cat_fwd_kernel", partial(_index, back=False)),
    Entry("xformers_index_back", "k_index_select_cat", "index_select_cat_bwd_kernel", partial(_index, back=True)),
    Entry("xformers_rms_norm", "rmsnorm_kernels", "_rms_norm_kernel",
          lambda m: partial(m._rms_norm_forward, _n(8192, 4096), _n(4096), 1e-6)),
    Entry("applied_rms_norm", "training.rms_norm.fused_rms_norm", "_rms_norm_fwd_kernel",
          lambda m: partial(m.ttt_RMSNorm.apply, _n(8192, 4096), _n(4096), 1e-6)),
    Entry("applied_rms_norm_back", "training.rms_norm.fused_rms_norm", "_rms_norm_bwd_kernel_sm",
          lambda m: _back(m.ttt_RMSNorm.apply, _n(8192, 4096), _n(4096), more=(1e-6,))),
    Entry("applied_softmax", "training.fused_softmax.softmax", "_softmax_kernel_fwd",
          lambda m: partial(m.fused_softmax, _n(8192, 4096))),
    Entry("applied_softmax_back", "training.fused_softmax.softmax", "_softmax_kernel_bwd",
          lambda m: _back(m.fused_softmax, _n(8192, 4096))),
    Entry("attorch_softmax", "softmax_layers", "softmax_forward_kernel",
          lambda m: partial(m.SoftmaxAutoGrad.apply, _h(16384, 2048), False, False)),
    Entry("attorch_softmax_back", "softmax_layers", "softmax_backward_kernel",
          lambda m: _back(m.SoftmaxAutoGrad.apply, _h(16384, 2048), more=(False, False))),
    Entry("attorch_glu", "glu_layer", "glu_forward_kernel",
          lambda m: partial(m.GLUAutoGrad.apply, _h(4096, 22016), -1, "silu")),
    Entry("attorch_glu_back", "glu_layer", "glu_backward_kernel",
          lambda m: _back(m.GLUAutoGrad.apply, _h(4096, 22016), more=(-1, "silu"))),
    Entry("sglang_rms_norm", "layernorm.fused_rmsnorm", "fused_rmsnorm_kernel",
          lambda m: partial(m.fused_rmsnorm, _n(8192, 4096), _n(4096), 1e-6)),
    Entry("sglang_moe_sum", "moe.moe_fused_mul_sum", "moe_fused_mul_sum_kernel", _sglang_sum),
)  # fmt: skip

ENTRIES: Mapping[str, Entry] = {entry.name: entry for entry in (*PRODUCTS, *ROWS)}


# Launches.


@dataclass
class Launch:
    """What a library passes to a kernel: arguments by name, and what launches it with some of them changed."""

    kernel: Any
    named: dict[str, Any]
    grid: Any
    listed: list[dict[str, Any]]
    run: Callable[[Mapping[str, Any]], Any]

    def now(self) -> dict[str, int]:
        """Constants that are whole numbers, and options of the compiler."""
        defaults = {one.name: one.default for one in self.kernel.params if one.has_default and one.is_constexpr}
        constants = [one.name for one in self.kernel.params if one.is_constexpr]
        found = {**defaults, **self.named}
        options = {"num_warps": found.get("num_warps") or 4, "num_stages": found.get("num_stages") or 3}
        return {**{name: found[name] for name in constants if type(found.get(name)) is int}, **options}

    def tiles(self, change: Mapping[str, int]) -> tuple[int, ...]:
        """The grid."""
        grid: tuple[int, ...] = self.grid({**self.named, **change}) if callable(self.grid) else self.grid
        return tuple(grid)

    def tensors(self) -> list[torch.Tensor]:
        """Tensors that the launch may write."""
        import torch

        found = [one for one in self.named.values() if isinstance(one, torch.Tensor)]
        return [one.detach() for one in found if 0 not in one.stride()]


def _first_configurations() -> None:
    """Let autotuned kernels keep the first of their configurations, so that nothing is searched for."""
    from triton.runtime.autotuner import Autotuner

    if hasattr(Autotuner, "listed"):
        return
    made = Autotuner.__init__

    def init(self: Any, fn: Any, *args: Any, **kwargs: Any) -> None:
        made(self, fn, *args, **kwargs)
        while not hasattr(fn, "params"):
            fn = fn.fn
        fn.listed, self.configs = [one.all_kwargs() for one in self.configs], self.configs[:1]

    Autotuner.__init__, Autotuner.listed = init, True


@contextmanager
def _instead(entry: Entry, launch: Callable[[Launch], Any]) -> Iterator[None]:
    """Within the block ``launch`` makes the launch of an entry's kernel. Raises RuntimeError where there is not
    exactly one."""
    from triton.runtime.jit import JITFunction

    original, launched = JITFunction.run, []

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup or self.fn.__name__ != entry.kernel:
            return original(self, *args, grid=grid, warmup=warmup, **kwargs)
        launched.append(self)
        if len(launched) > 1:
            raise RuntimeError(f"{entry.name} launches {entry.kernel} more than once")
        named, positional = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}, self.arg_names[: len(args)]

        def again(change: Mapping[str, Any]) -> Any:
            new = {**named, **change}
            first = [new.pop(name) for name in positional]
            return original(self, *first, grid=grid, warmup=False, **new)

        return launch(Launch(self, named, grid, getattr(self, "listed", []), again))

    JITFunction.run = run
    try:
        yield
    finally:
        JITFunction.run = original
    if not launched:
        raise RuntimeError(f"{entry.name} does not launch {entry.kernel}")


def load(name: str) -> ModuleType:
    """The module of a kernel."""
    _first_configurations()
    return module(ENTRIES[name].library, ENTRIES[name].module)


def prepare(name: str) -> Callable[[Callable[[Launch], Any]], None]:
    """Make the inputs of a kernel; what is returned calls its library, where the launch of this kernel is made by
    what it gets. Raises what the library does."""
    import torch

    torch.manual_seed(0)
    entry = ENTRIES[name]
    call = entry.make(load(name))

    def launched(launch: Callable[[Launch], Any]) -> None:
        with _instead(entry, launch):
            call()
        torch.cuda.synchronize()

    return launched
