// GEMMs of CUTLASS for the dataset of measured launches: C = A * B in half precision, A row-major, B column-major.
//
//   nvcc -std=c++17 -O3 -DNDEBUG -arch=sm_90a --expt-relaxed-constexpr -I CUTLASS/include -I CUTLASS/tools/util/include
//     cutlass_gemms.cu -o cutlass_gemms -lcuda
//   ./cutlass_gemms NAME M N K      launches once and prints the sum of C
//
// Without NDEBUG the compiler serializes wgmma.
#include <cuda_fp16.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm.h"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

using cute::_1;
using cute::_128;
using cute::_2;
using cute::_256;
using cute::_64;
using Half = cutlass::half_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;

struct Problem {
  int m, n, k;
  Half *a, *b, *c;
};

void require(bool good, const char* what) {
  if (!good) {
    fprintf(stderr, "failed: %s\n", what);
    exit(1);
  }
}

// Hopper: tiles by TMA, products by wgmma, a producer warp beside one or two consumer warpgroups.
template <class Tile, class Cluster, int kStages, class Schedule, class EpilogueSchedule>
void hopper(const Problem& p) {
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
      cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, Row, 8, Half, Row, 8,
      EpilogueSchedule>::CollectiveOp;
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Half, Row, 8, Half, Column, 8, float, Tile, Cluster,
      cutlass::gemm::collective::StageCount<kStages>, Schedule>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
  const auto a = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, cute::make_shape(p.m, p.k, 1));
  const auto b = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, cute::make_shape(p.n, p.k, 1));
  const auto d = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, cute::make_shape(p.m, p.n, 1));
  typename Gemm::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm, {p.m, p.n, p.k, 1}, {p.a, a, p.b, b}, {{1.0f, 0.0f}, nullptr, {}, p.c, d}};
  Gemm gemm;
  void* workspace = nullptr;
  const size_t bytes = Gemm::get_workspace_size(arguments);
  if (bytes) require(cudaMalloc(&workspace, bytes) == cudaSuccess, "workspace");
  require(gemm.can_implement(arguments) == cutlass::Status::kSuccess, "can_implement");
  require(gemm.initialize(arguments, workspace) == cutlass::Status::kSuccess, "initialize");
  require(gemm.run() == cutlass::Status::kSuccess, "run");
}

// Ampere: tiles by cp.async into a ring of stages, products by mma.sync.
template <int kM, int kN, int kK, int kStages>
void ampere(const Problem& p) {
  using Gemm = cutlass::gemm::device::Gemm<
      Half, Row, Half, Column, Half, Row, float, cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
      cutlass::gemm::GemmShape<kM, kN, kK>, cutlass::gemm::GemmShape<64, 64, kK>, cutlass::gemm::GemmShape<16, 8, 16>,
      cutlass::epilogue::thread::LinearCombination<Half, 8, float, float>,
      cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<8>, kStages>;
  Gemm gemm;
  typename Gemm::Arguments arguments({p.m, p.n, p.k}, {p.a, p.k}, {p.b, p.k}, {p.c, p.n}, {p.c, p.n}, {1.0f, 0.0f});
  require(gemm(arguments) == cutlass::Status::kSuccess, "run");
}

using Plain = cutlass::gemm::KernelTmaWarpSpecialized;
using Pingpong = cutlass::gemm::KernelTmaWarpSpecializedPingpong;
using Cooperative = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
using Epilogue = cutlass::epilogue::TmaWarpSpecialized;
using CooperativeEpilogue = cutlass::epilogue::TmaWarpSpecializedCooperative;

struct Entry {
  const char* name;
  void (*run)(const Problem&);
};

const Entry kEntries[] = {
    {"ws_s2", hopper<cute::Shape<_128, _128, _64>, cute::Shape<_1, _1, _1>, 2, Plain, Epilogue>},
    {"ws_s4", hopper<cute::Shape<_128, _128, _64>, cute::Shape<_1, _1, _1>, 4, Plain, Epilogue>},
    {"pingpong_s2", hopper<cute::Shape<_64, _128, _64>, cute::Shape<_1, _1, _1>, 2, Pingpong, Epilogue>},
    {"pingpong_s5", hopper<cute::Shape<_64, _128, _64>, cute::Shape<_1, _1, _1>, 5, Pingpong, Epilogue>},
    {"cooperative_s2", hopper<cute::Shape<_128, _256, _64>, cute::Shape<_2, _1, _1>, 2, Cooperative, CooperativeEpilogue>},
    {"cooperative_s3", hopper<cute::Shape<_128, _256, _64>, cute::Shape<_2, _1, _1>, 3, Cooperative, CooperativeEpilogue>},
    {"multistage_s3", ampere<128, 128, 32, 3>},
    {"multistage_s4", ampere<128, 128, 32, 4>},
};

int main(int count, char** words) {
  require(count == 5, "usage: cutlass_gemms NAME M N K");
  Problem p{atoi(words[2]), atoi(words[3]), atoi(words[4]), nullptr, nullptr, nullptr};
  const size_t sizes[] = {size_t(p.m) * p.k, size_t(p.n) * p.k, size_t(p.m) * p.n};
  Half** places[] = {&p.a, &p.b, &p.c};
  std::vector<Half> host;
  for (int i = 0; i < 3; i++) {
    host.resize(sizes[i]);
    for (size_t at = 0; at < sizes[i]; at++) host[at] = Half(i < 2 ? float(int(at * 7919 % 17) - 8) / 8 : 0.0f);
    require(cudaMalloc(places[i], sizes[i] * sizeof(Half)) == cudaSuccess, "cudaMalloc");
    require(cudaMemcpy(*places[i], host.data(), sizes[i] * sizeof(Half), cudaMemcpyHostToDevice) == cudaSuccess, "copy");
  }
  for (const Entry& entry : kEntries)
    if (!strcmp(entry.name, words[1])) {
      entry.run(p);
      require(cudaDeviceSynchronize() == cudaSuccess, "synchronize");
      require(cudaMemcpy(host.data(), p.c, sizes[2] * sizeof(Half), cudaMemcpyDeviceToHost) == cudaSuccess, "copy");
      double sum = 0;
      for (const Half& value : host) sum += float(value);
      printf("%s %.1f\n", entry.name, sum);
      return 0;
    }
  require(false, "no such GEMM");
}
