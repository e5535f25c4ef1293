// A GEMM of CUTLASS's CollectiveBuilder, D = A B in bf16 with fp32 accumulation: A is m x k row-major, B k x n
// column-major, both of ELEMENT. What a user sets is a macro, but for GROUP_M and SPLIT_K, which are arguments:
//   TILE_M TILE_N TILE_K   tile of a CTA
//   STAGES                 depth of the ring; 0 is CUTLASS's own choice
//   WARPS                  8: one math warpgroup; 12: two, which share a tile (cooperative); 13: two, which take turns
//   CLUSTER                CTAs of a cluster along m, which share tiles of B
#include <cuda_runtime.h>

#include <type_traits>

#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

using cute::Int;
using Element = ELEMENT;
using Out = cutlass::bfloat16_t;
constexpr int kAlign = 16 / sizeof(Element);
using TileShape = cute::Shape<Int<TILE_M>, Int<TILE_N>, Int<TILE_K>>;
using ClusterShape = cute::Shape<Int<CLUSTER>, Int<1>, Int<1>>;

constexpr bool kFp8 = sizeof(Element) == 1;
template <class Plain, class Fast>
using ForType = std::conditional_t<kFp8, Fast, Plain>;
using Schedule = std::conditional_t<
    WARPS == 8, cutlass::gemm::KernelTmaWarpSpecialized,
    std::conditional_t<WARPS == 12,
                       ForType<cutlass::gemm::KernelTmaWarpSpecializedCooperative,
                               cutlass::gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum>,
                       ForType<cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                               cutlass::gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum>>>;
using EpilogueSchedule = std::conditional_t<WARPS == 12, cutlass::epilogue::TmaWarpSpecializedCooperative,
                                            cutlass::epilogue::TmaWarpSpecialized>;

using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, ClusterShape,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, cutlass::layout::RowMajor, 8, Out,
    cutlass::layout::RowMajor, 8, EpilogueSchedule>::CollectiveOp;
using Carveout =
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>;
using Depth = std::conditional_t<STAGES == 0, Carveout, cutlass::gemm::collective::StageCount<STAGES>>;
using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor, kAlign, Element,
    cutlass::layout::ColumnMajor, kAlign, float, TileShape, ClusterShape, Depth, Schedule>::CollectiveOp;
// Stream-K divides k among CTAs where SPLIT_K is above one; it needs the cooperative schedule.
using Scheduler = std::conditional_t<WARPS == 12, cutlass::gemm::StreamKScheduler, void>;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue, Scheduler>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

namespace {
Gemm kernel;

template <class Scheduling>
void set_scheduler(Scheduling &scheduler, int group_m, int split_k) {
    scheduler.max_swizzle_size = group_m;
    if constexpr (WARPS == 12) {
        using Params = cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90StreamKParams;
        scheduler.splits = split_k;
        if (split_k == 1) scheduler.decomposition_mode = Params::DecompositionMode::DataParallel;
    }
}

typename Gemm::Arguments arguments(const void *a, const void *b, void *d, int m, int n, int k, int group_m,
                                   int split_k) {
    auto stride_a = cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1});
    auto stride_b = cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1});
    auto stride_d = cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1});
    typename Gemm::Arguments made{cutlass::gemm::GemmUniversalMode::kGemm,
                                  {m, n, k, 1},
                                  {static_cast<const Element *>(a), stride_a, static_cast<const Element *>(b), stride_b},
                                  {{1.0f, 0.0f}, nullptr, {}, static_cast<Out *>(d), stride_d}};
    set_scheduler(made.scheduler, group_m, split_k);
    return made;
}
}  // namespace

// Bytes that launch() needs; -1 where CUTLASS refuses the problem.
extern "C" long long workspace(int m, int n, int k, int group_m, int split_k) {
    auto made = arguments(nullptr, nullptr, nullptr, m, n, k, group_m, split_k);
    if (Gemm::can_implement(made) != cutlass::Status::kSuccess) return -1;
    return static_cast<long long>(Gemm::get_workspace_size(made));
}

extern "C" int prepare(const void *a, const void *b, void *d, void *workspace, int m, int n, int k, int group_m,
                       int split_k) {
    auto made = arguments(a, b, d, m, n, k, group_m, split_k);
    return static_cast<int>(kernel.initialize(made, workspace));
}

extern "C" int launch(void *stream) { return static_cast<int>(kernel.run(static_cast<cudaStream_t>(stream))); }

extern "C" int shared_bytes() { return Kernel::SharedStorageSize; }
