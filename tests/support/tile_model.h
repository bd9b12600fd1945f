// The AMX tiles of a thread as Intel's pseudo-code has them (SDM volume 2, LDTILECFG, TILELOADD,
// TDPBF16PS, TDPBSSD), with every condition under which a processor faults.
// Called by: tests of the tile kernels. Thread-safety: one model per thread.
#ifndef MLA_TESTS_SUPPORT_TILE_MODEL_H_
#define MLA_TESTS_SUPPORT_TILE_MODEL_H_

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "base/float16.h"
#include "kernels/x86/amx_tiles.h"

namespace mla {

struct TileModel {
  TileConfig config;  // palette 0: not configured
  uint8_t data[8][16][64] = {};
  std::string fault;  // the first one
  bool takes_config = true;
  int64_t products = 0;      // since construction
  int64_t product_rows = 0;  // of their first operands, which is what they cost

  static TileModel& Here() {
    static thread_local TileModel model;
    return model;
  }

  int row_bytes(int t) const { return config.row_bytes[t]; }
  int rows(int t) const { return config.rows[t]; }
  void Check(bool good, const char* what) {
    if (!good && fault.empty()) fault = what;
  }

  void LoadConfig(const TileConfig& c) {
    Check(c.palette == 0 || c.palette == 1, "#GP: palette");
    Check(c.start_row == 0, "start row");
    for (uint8_t byte : c.reserved) Check(byte == 0, "#GP: reserved byte");
    for (int t = 0; t < 16; ++t) {
      Check(t < 8 || (c.row_bytes[t] == 0 && c.rows[t] == 0), "#GP: tile above 7");
      Check(c.row_bytes[t] <= 64 && c.rows[t] <= 16, "#GP: tile too large");
      Check((c.row_bytes[t] == 0) == (c.rows[t] == 0), "one size is zero");
    }
    if (!takes_config) return;
    config = c;
    std::memset(data, 0, sizeof(data));
  }

  void Release() { config = TileConfig(); }

  void CheckTile(int t) {
    Check(config.palette == 1, "#UD: not configured");
    Check(t >= 0 && t < 8 && rows(t) > 0, "#UD: a tile without size");
  }

  void Zero(int t) {
    CheckTile(t);
    std::memset(data[t], 0, sizeof(data[t]));
  }

  void Load(int t, const void* base, int64_t stride) {
    Zero(t);
    for (int row = 0; row < rows(t); ++row) {
      std::memcpy(data[t][row], static_cast<const uint8_t*>(base) + row * stride,
                  static_cast<size_t>(row_bytes(t)));
    }
  }

  void Store(int t, void* base, int64_t stride) {
    CheckTile(t);
    for (int row = 0; row < rows(t); ++row) {
      std::memcpy(static_cast<uint8_t*>(base) + row * stride, data[t][row],
                  static_cast<size_t>(row_bytes(t)));
    }
  }

  void CheckSizes(int c, int a, int b) {
    Check(c != a && c != b && a != b, "#UD: a tile twice");
    for (int t : {c, a, b}) CheckTile(t);
    Check(row_bytes(c) % 4 == 0 && row_bytes(a) % 4 == 0, "#UD: not in fours");
    Check(row_bytes(c) == row_bytes(b), "#UD: columns of C and B");
    Check(rows(c) == rows(a), "#UD: rows of C and A");
    Check(row_bytes(a) == 4 * rows(b), "#UD: depth of A and B");
    ++products;
    product_rows += rows(a);
  }

  template <typename T>
  T At(int t, int row, int index) const {
    T value;
    std::memcpy(&value, data[t][row] + static_cast<size_t>(index) * sizeof(T), sizeof(T));
    return value;
  }

  // Denormals count as zero, of whichever kind (SDM: DAZ and FTZ whatever MXCSR says).
  // Inlined by force: it is most of what the model does, and sanitizer builds would call it.
  [[gnu::always_inline]] static inline float Flush(float x) {
    return std::fabs(x) < std::numeric_limits<float>::min() && x != 0 ? 0.0f : x;
  }

  /// A tile of bf16 as fp32, widened once: the products below meet each element 16 times.
  struct Wide {
    float at[16][32];
  };
  Wide Widen(int t) const {
    Wide wide;
    for (int row = 0; row < rows(t); ++row) {
      for (int i = 0; i < row_bytes(t) / 2; ++i) {
        wide.at[row][i] = Flush(Bf16ToFloat(At<uint16_t>(t, row, i)));
      }
    }
    return wide;
  }

  void DotBf16(int c, int a, int b) {
    CheckSizes(c, a, b);
    const Wide wide_a = Widen(a);
    const Wide wide_b = Widen(b);
    const int depth = row_bytes(a) / 4;
    for (int m = 0; m < rows(c); ++m) {
      for (int n = 0; n < row_bytes(c) / 4; ++n) {
        float even = 0, odd = 0;
        for (int k = 0; k < depth; ++k) {
          const float* left = wide_a.at[m] + 2 * k;
          const float* right = wide_b.at[k] + 2 * n;
          even = Flush(std::fma(left[0], right[0], even));
          odd = Flush(std::fma(left[1], right[1], odd));
        }
        const float sum = Flush(Flush(At<float>(c, m, n)) + Flush(even + odd));
        std::memcpy(data[c][m] + 4 * n, &sum, sizeof(sum));
      }
    }
  }

  void DotInt8(int c, int a, int b) {
    CheckSizes(c, a, b);
    for (int m = 0; m < rows(c); ++m) {
      for (int n = 0; n < row_bytes(c) / 4; ++n) {
        int32_t sum = At<int32_t>(c, m, n);
        for (int k = 0; k < row_bytes(a) / 4; ++k) {
          for (int i = 0; i < 4; ++i) {
            sum += At<int8_t>(a, m, 4 * k + i) * At<int8_t>(b, k, 4 * n + i);
          }
        }
        std::memcpy(data[c][m] + 4 * n, &sum, sizeof(sum));
      }
    }
  }
};

/// The operations that LatentAmx and LatentInt8Tiles take (kernels/x86/latent_amx.h), on the
/// calling thread's model.
struct ModelTiles {
  static void LoadConfig(const TileConfig& c) { TileModel::Here().LoadConfig(c); }
  static void Release() { TileModel::Here().Release(); }
  template <int T>
  static void Zero() {
    TileModel::Here().Zero(T);
  }
  template <int T>
  static void Load(const void* base, int64_t stride) {
    TileModel::Here().Load(T, base, stride);
  }
  template <int T>
  static void Store(void* base, int64_t stride) {
    TileModel::Here().Store(T, base, stride);
  }
  template <int C, int A, int B>
  static void Dot() {
    TileModel::Here().DotBf16(C, A, B);
  }
  template <int C, int A, int B>
  static void DotInt8() {
    TileModel::Here().DotInt8(C, A, B);
  }
};

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_TILE_MODEL_H_
