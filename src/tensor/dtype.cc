#include "tensor/dtype.h"

namespace mla {
namespace {

struct Row {
  DType dtype;
  int8_t size;
  std::string_view name;
  std::string_view safetensors;
};

constexpr Row kTable[] = {
    {DType::kF32, 4, "f32", "F32"},
    {DType::kF16, 2, "f16", "F16"},
    {DType::kBf16, 2, "bf16", "BF16"},
    {DType::kF64, 8, "f64", "F64"},
    {DType::kI8, 1, "i8", "I8"},
    {DType::kU8, 1, "u8", "U8"},
    {DType::kI16, 2, "i16", "I16"},
    {DType::kU16, 2, "u16", "U16"},
    {DType::kI32, 4, "i32", "I32"},
    {DType::kU32, 4, "u32", "U32"},
    {DType::kI64, 8, "i64", "I64"},
    {DType::kU64, 8, "u64", "U64"},
    {DType::kBool, 1, "bool", "BOOL"},
    {DType::kF8E4M3, 1, "f8_e4m3", "F8_E4M3"},
    {DType::kF8E5M2, 1, "f8_e5m2", "F8_E5M2"},
    {DType::kF8E8M0, 1, "f8_e8m0", "F8_E8M0"},
};

}  // namespace

// The table is in the enum's order, so that a lookup is an index.
int64_t DTypeSize(DType dtype) noexcept { return kTable[static_cast<int>(dtype)].size; }

std::string_view DTypeName(DType dtype) noexcept { return kTable[static_cast<int>(dtype)].name; }

std::optional<DType> ParseSafetensorsDType(std::string_view name) noexcept {
  for (const Row& row : kTable) {
    if (row.safetensors == name) return row.dtype;
  }
  return std::nullopt;
}

}  // namespace mla
