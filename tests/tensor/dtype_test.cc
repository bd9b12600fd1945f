#include "tensor/dtype.h"

#include <gtest/gtest.h>

namespace mla {
namespace {

TEST(DType, TableIsInTheOrderOfTheEnum) {
  const struct {
    const char* safetensors;
    DType dtype;
    int64_t size;
    const char* name;
  } rows[] = {{"F32", DType::kF32, 4, "f32"},
              {"F16", DType::kF16, 2, "f16"},
              {"BF16", DType::kBf16, 2, "bf16"},
              {"F64", DType::kF64, 8, "f64"},
              {"I8", DType::kI8, 1, "i8"},
              {"U8", DType::kU8, 1, "u8"},
              {"I16", DType::kI16, 2, "i16"},
              {"U16", DType::kU16, 2, "u16"},
              {"I32", DType::kI32, 4, "i32"},
              {"U32", DType::kU32, 4, "u32"},
              {"I64", DType::kI64, 8, "i64"},
              {"U64", DType::kU64, 8, "u64"},
              {"BOOL", DType::kBool, 1, "bool"},
              {"F8_E4M3", DType::kF8E4M3, 1, "f8_e4m3"},
              {"F8_E5M2", DType::kF8E5M2, 1, "f8_e5m2"},
              {"F8_E8M0", DType::kF8E8M0, 1, "f8_e8m0"}};
  for (const auto& row : rows) {
    EXPECT_EQ(ParseSafetensorsDType(row.safetensors), row.dtype) << row.safetensors;
    EXPECT_EQ(DTypeSize(row.dtype), row.size) << row.safetensors;
    EXPECT_EQ(DTypeName(row.dtype), row.name);
    EXPECT_EQ(IsDenseFloat(row.dtype), row.dtype <= DType::kBf16);
  }
  EXPECT_FALSE(ParseSafetensorsDType("f32").has_value());
  EXPECT_FALSE(ParseSafetensorsDType("").has_value());
}

}  // namespace
}  // namespace mla
