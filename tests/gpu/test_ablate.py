"""``ncubble ablate`` on a GPU: what is measured, and that the program is left as it is."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu
ABLATE = [sys.executable, "-P", "-c", "from ncubble.cli.main import main; main()", "ablate"]
SHAPE = "m=4096,n=4096,k=4096"
SOURCE = r"""
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

// Adds to what is there: a launch too many would change the result.
__global__ void smooth(float* data, int rounds) {
  __shared__ float tile[256];
  float value = data[blockIdx.x * 256 + threadIdx.x];
  for (int round = 0; round < rounds; round++) {
    tile[threadIdx.x] = value;
    __syncthreads();
    value = 0.5f * value + 0.25f * tile[(threadIdx.x + 1) % 256] + 1.0f;
    __syncthreads();
  }
  data[blockIdx.x * 256 + threadIdx.x] += value;
}

// Without its barriers, the first warp runs ahead, as the others sleep, and they wait for a round that is over.
__global__ void hanging(float* data, int rounds) {
  __shared__ volatile int now;
  for (int round = 1; round <= rounds; round++) {
    if (threadIdx.x == 0) now = round;
    __syncthreads();
    if (threadIdx.x >= 32) __nanosleep(1000);
    while (now != round) {
    }
    data[blockIdx.x * 256 + threadIdx.x] += 1.0f;
    __syncthreads();
  }
}

// Without its barriers, threads read indexes that point nowhere.
__global__ void faulting(float* data, int rounds) {
  __shared__ volatile int index[256];
  float sum = 0.0f;
  for (int round = 0; round < rounds; round++) {
    index[threadIdx.x] = (threadIdx.x + round) % 256;
    __syncthreads();
    sum += data[index[(threadIdx.x + 33) % 256]];
    __syncthreads();
    index[threadIdx.x] = 0x70000000;
    __syncthreads();
  }
  data[(blockIdx.x + 1) * 256 + threadIdx.x] = sum;
}

int main(int count, char** words) {
  const int n = 264 * 256;
  static float host[264 * 256];
  float* data;
  cudaStream_t stream;
  for (int i = 0; i < n; i++) host[i] = i % 97;
  cudaStreamCreate(&stream);
  cudaMalloc(&data, sizeof host);
  cudaMemcpy(data, host, sizeof host, cudaMemcpyDefault);
  const bool graph = count > 1 && !strcmp(words[1], "graph");
  if (graph) {
    cudaGraph_t recorded;
    cudaGraphExec_t made;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    smooth<<<264, 256, 0, stream>>>(data, 500);
    cudaStreamEndCapture(stream, &recorded);
    cudaGraphInstantiate(&made, recorded, 0);
    cudaGraphLaunch(made, stream);
  } else if (count > 1 && !strcmp(words[1], "hanging")) {
    hanging<<<8, 256, 0, stream>>>(data, 200);
  } else if (count > 1) {
    faulting<<<8, 256, 0, stream>>>(data, 2000);
  } else {
    for (int i = 0; i < 3; i++) smooth<<<264, 256, 0, stream>>>(data, 500);
  }
  cudaStreamSynchronize(stream);
  cudaMemcpy(host, data, sizeof host, cudaMemcpyDefault);
  unsigned long long sum = 0;
  for (int i = 0; i < n; i++) {
    unsigned bits;
    memcpy(&bits, &host[i], 4);
    sum = sum * 31 + bits;
  }
  printf("sum=%016llx\n", sum);
  return cudaGetLastError() != cudaSuccess;
}
"""


def ablate(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [*ABLATE, "--json", "--out", str(folder / "run"), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)


def measured(folder: Path, *arguments: str) -> dict[str, Any]:
    """The ablation of one launch."""
    done = ablate(folder, *arguments)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    assert found["faithful"] is True
    return dict(found)


def gone(found: dict[str, Any]) -> dict[str, float]:
    """What vanishes with each variant, in percent of the kernel's cycles."""
    return {variant["name"]: variant["gone_pct"] for variant in found["variants"] if variant["status"] == "ok"}


def summed(output: str) -> list[str]:
    return re.findall(r"sum=([0-9a-f]{16})", output)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program that prints a hash of its results."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    path = tmp_path_factory.mktemp("program") / "smooth"
    path.with_suffix(".cu").write_text(SOURCE)
    subprocess.run([nvcc, "-O2", "-arch=native", str(path.with_suffix(".cu")), "-o", str(path)], check=True)
    return os.fspath(path)


def test_waits_and_copies_of_known_kernels_cost_what_they_did(tmp_path: Path) -> None:
    alone = gone(measured(tmp_path / "async", "tensor_core_gemm", "-p", "stages=2", "-p", SHAPE))
    assert -5 <= alone["wait"] <= 15 and 20 <= alone["copy"] <= 45
    found = measured(tmp_path / "tma", "gemm_tma", "-p", "stages=1", "-p", SHAPE)
    assert 40 <= gone(found)["wait"] <= 50
    assert found["slack"] and all(variant["status"] == "ok" for variant in found["slack"]), "delays keep results"


def test_a_program_computes_what_it_computes_without(tmp_path: Path, program: str) -> None:
    plain = subprocess.run([program], capture_output=True, text=True, timeout=60, check=True)
    done = ablate(tmp_path, "--kernel", "smooth", "--skip", "1", "--", program)
    assert done.returncode == 0, done.stderr
    assert summed(done.stderr) == summed(plain.stdout) != []
    (found,) = json.loads(done.stdout)["runs"]
    assert found["faithful"] is True and gone(found)["sync"] > 0
    assert (tmp_path / "run" / "kernel.cubin").read_bytes()[:4] == b"\x7fELF"


def test_a_launch_in_a_graph_is_refused_by_name(tmp_path: Path, program: str) -> None:
    done = ablate(tmp_path, "--kernel", "smooth", "--", program, "graph")
    assert done.returncode == 3
    said = " ".join(done.stderr.split())
    assert "smooth" in said and "cannot be recorded: it is captured into a CUDA graph" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("planted", "status"), [("hanging", "hangs"), ("faulting", "CUDA_ERROR_")])
def test_a_variant_that_fails_is_named_and_the_others_are_measured(
    tmp_path: Path, program: str, planted: str, status: str
) -> None:
    done = ablate(tmp_path, "--kernel", planted, "--", program, planted)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["runs"]
    told = {variant["name"]: variant["status"] for variant in [*found["variants"], *found["slack"]]}
    assert told["sync"].startswith(status)
    assert "ok" in told.values() and len(found["variants"]) + len(found["slack"]) > 1
