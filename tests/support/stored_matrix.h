// A matrix in one of the storage formats, with the values that the storage holds.
// Called by: tests of kernels, ops, attention, layers. Thread-safety: immutable after construction.
// Rows may be farther apart than they are wide; the gap is filled with NaN.
#ifndef MLA_TESTS_SUPPORT_STORED_MATRIX_H_
#define MLA_TESTS_SUPPORT_STORED_MATRIX_H_

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/float16.h"
#include "kernels/elem.h"
#include "support/compare.h"
#include "support/random.h"

namespace mla {

/// What `value` becomes in storage.
inline float Rounded(float value, Elem type) {
  switch (type) {
    case Elem::kF32:
      return value;
    case Elem::kF16:
      return Fp16ToFloat(FloatToFp16(value));
    case Elem::kBf16:
      return Bf16ToFloat(FloatToBf16(value));
    case Elem::kInt8:
      break;  // rows, not elements
  }
  return kNaN;
}

class StoredMatrix {
 public:
  /// `values` [rows, cols] row-major; `shift` elements of NaN come first, so that a kernel sees a
  /// pointer of no particular alignment.
  StoredMatrix(std::vector<float> values, int64_t rows, int64_t cols, Elem type, int64_t gap = 0,
               int64_t shift = 0)
      : rows_(rows), cols_(cols), stride_(cols + gap), shift_(shift), type_(type) {
    values_ = std::move(values);
    bytes_.resize(static_cast<size_t>((shift + rows * stride_) * ElemSize(type)));
    for (int64_t i = 0; i < shift + rows * stride_; ++i) Put(i, kNaN);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < cols; ++j) {
        float& v = values_[static_cast<size_t>(i * cols + j)];
        v = Rounded(v, type);
        Put(shift + i * stride_ + j, v);
      }
    }
  }
  static StoredMatrix Normal(Random& random, int64_t rows, int64_t cols, Elem type,
                             double deviation = 1, int64_t gap = 0, int64_t shift = 0) {
    return {random.Normals(rows * cols, deviation), rows, cols, type, gap, shift};
  }

  const void* data() const { return bytes_.data() + shift_ * ElemSize(type_); }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t stride() const { return stride_; }
  Elem type() const { return type_; }
  /// [rows, cols] as stored.
  const std::vector<float>& values() const { return values_; }
  double At(int64_t i, int64_t j) const { return values_[static_cast<size_t>(i * cols_ + j)]; }

 private:
  void Put(int64_t i, float value) {
    char* at = bytes_.data() + i * ElemSize(type_);
    if (type_ == Elem::kF32) {
      std::memcpy(at, &value, 4);
      return;
    }
    const uint16_t bits = type_ == Elem::kF16 ? FloatToFp16(value) : FloatToBf16(value);
    std::memcpy(at, &bits, 2);
  }

  int64_t rows_, cols_, stride_, shift_;
  Elem type_;
  std::vector<float> values_;
  std::vector<char> bytes_;
};

inline constexpr Elem kAllElems[] = {Elem::kF32, Elem::kF16, Elem::kBf16};

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_STORED_MATRIX_H_
