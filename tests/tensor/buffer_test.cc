#include "tensor/buffer.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "tensor/weight_view.h"

namespace mla {
namespace {

TEST(Buffer, IsAlignedAndZero) {
  for (const int64_t bytes : {1, 63, 64, 4097, 65535, 65536, 1 << 20}) {
    const Buffer buffer(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u);
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(buffer.as<char>()[i], 0);
    buffer.as<char>()[bytes - 1] = 1;
  }
  EXPECT_EQ(Buffer(0).data(), nullptr);
}

TEST(Buffer, BeginsAtAHugePageWhereItFillsOne) {
  constexpr int64_t kHugePage = 2 << 20;
  for (const int64_t bytes : {int64_t{100}, kHugePage - 1, kHugePage, 3 * kHugePage + 1}) {
    // Neighbours: what is given back around one must not be another's.
    const Buffer before(bytes, Pages::kHuge);
    const Buffer buffer(bytes, Pages::kHuge);
    const Buffer after(bytes, Pages::kHuge);
    for (const Buffer* b : {&before, &buffer, &after}) {
      EXPECT_EQ(b->bytes(), bytes);
      if (bytes >= kHugePage) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(b->data()) % kHugePage, 0u);
      }
      ASSERT_EQ(b->as<char>()[0], 0);
      ASSERT_EQ(b->as<char>()[bytes - 1], 0);
      std::memset(b->data(), 1, static_cast<size_t>(bytes));
    }
  }
}

TEST(Buffer, Moves) {
  Buffer a(100);
  a.as<char>()[7] = 3;
  Buffer b(std::move(a));
  EXPECT_EQ(b.as<char>()[7], 3);
  Buffer c(200000);
  c = std::move(b);
  EXPECT_EQ(c.bytes(), 100);
  EXPECT_EQ(c.as<char>()[7], 3);
}

TEST(Buffer, RefusesWhatIsNotThere) {
  ExpectError(ErrorCode::kBadInput, {"-1"}, [] { Buffer(-1); });
  ExpectError(ErrorCode::kResource, {"out of memory", "--ctx"}, [] { Buffer(int64_t{1} << 60); });
  ExpectError(ErrorCode::kBadInput, {"does not fit"}, [] { FloatBuffer(int64_t{1} << 62); });
}

TEST(WeightView, RowsAreAWindow) {
  float data[12];
  const WeightView view{data, 3, 2, 4, DType::kF32};
  const WeightView part = view.Rows(1, 2);
  EXPECT_EQ(part.data, data + 4);
  EXPECT_EQ(part.rows, 2);
  EXPECT_EQ(part.cols, 2);
  EXPECT_EQ(view.bytes(), 24);
}

}  // namespace
}  // namespace mla
