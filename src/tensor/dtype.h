// Element types of tensors as checkpoints store them.
// Called by: io, model, ops, attention. Thread-safety: stateless.
#ifndef MLA_TENSOR_DTYPE_H_
#define MLA_TENSOR_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace mla {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBf16,
  kF64,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0
};

/// Bytes of one element.
int64_t DTypeSize(DType dtype) noexcept;

/// Lower-case name as messages and options use it: "f32", "bf16", "f8_e4m3" ...
std::string_view DTypeName(DType dtype) noexcept;

/// Parses a safetensors dtype ("F32", "BF16", "F8_E4M3" ...); nullopt if unknown.
std::optional<DType> ParseSafetensorsDType(std::string_view name) noexcept;

/// Whether the kernels read this type as a dense floating-point operand.
constexpr bool IsDenseFloat(DType dtype) noexcept {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBf16;
}

}  // namespace mla

#endif  // MLA_TENSOR_DTYPE_H_
