#include "kernels/kernel_table.h"

namespace mla {

const KernelTable& FastKernels() noexcept {
  static constexpr KernelTable kTable = {
      "highway",    MatmulNt,     MatmulNn,     AttendTile,  AttendFinish,  LatentBegin, LatentTile,
      LatentFinish, PrefillTakes, PrefillBegin, PrefillTile, PrefillFinish, MergeStates, RmsNorm,
      RotatePairs,  SwiGlu,       Axpy,         Softmax,     AllFinite,     ToFloat,     FromFloat};
  return kTable;
}

const KernelTable& ReferenceKernels() noexcept {
  static constexpr KernelTable kTable = {
      "reference", reference::MatmulNt, reference::MatmulNn, reference::AttendTile,
      reference::AttendFinish, reference::LatentBegin, reference::LatentTile,
      reference::LatentFinish,
      // Composed of products and tiles instead.
      [](const LatentFormat&, int64_t, int64_t, int64_t) noexcept { return false; }, nullptr,
      nullptr, nullptr, reference::MergeStates, reference::RmsNorm, reference::RotatePairs,
      reference::SwiGlu, reference::Axpy, reference::Softmax, reference::AllFinite,
      reference::ToFloat, reference::FromFloat};
  return kTable;
}

}  // namespace mla
