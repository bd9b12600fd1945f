// The product that matrix kernels on bf16 are made of: up to 2 x 2 tiles of 16 x 16 sums.
// Called by: kernels/x86/prefill_bf16.cc, tests. Thread-safety: the AMX family's tiles belong to
// the calling thread, from begin to end.
#ifndef MLA_KERNELS_X86_BLOCK_PRODUCT_H_
#define MLA_KERNELS_X86_BLOCK_PRODUCT_H_

#include <cstdint>

#include "kernels/x86/amx_tiles.h"
#include "kernels/x86/latent_bf16.h"

namespace mla {

/// c[i][j] (+)= the sum over steps and parts of a[i]'s step times b[j]'s step and part. A step is
/// 32 bf16 deep: 16 rows of 64 bytes of the first operand, [kBf16Pairs, kBf16Lanes] pairs of the
/// second. Every element is one chain in the order of its depth, whatever stands beside it.
struct BlockProduct {
  static constexpr int kMostRows = 4, kMostColumns = 2, kMost = 4;

  int rows = 0, columns = 0;          ///< of tiles; at most kMost together
  const char* a[kMostRows] = {};      ///< row 0 of step 0
  int64_t a_row = 0, a_step = 0;      ///< bytes from one row or step to the next
  const float* b[kMostColumns] = {};  ///< step 0, part 0
  int64_t b_step = 0;                 ///< floats from one step to the next; parts follow each other
  /// Parts of the second operand that meet the same first one; 1 with more than two rows.
  int64_t steps = 0, parts = 1;
  /// So many more steps of the first operand meet the first parts of the last steps of the second;
  /// 0 with more than two rows.
  int64_t again = 0;
  float* c[kMostRows][kMostColumns] = {};  ///< [kBf16Lanes, kBf16Lanes] each
  bool accumulate = false;
};

struct BlockProducts {
  void (*begin)();
  void (*product)(const BlockProduct& work);
  void (*end)();
};

/// VDPBF16PS, and TDPBF16PS. Null where the build has none.
const BlockProducts* Bf16DotBlockProducts() noexcept;
const BlockProducts* AmxBlockProducts() noexcept;

/// Ops as in latent_amx.h. Tiles: 0 to 3 sums; first operands in 4 and 5, second ones in 6 and 7,
/// or with more than two rows the second in 4, first ones in 5 to 7.
template <class Ops>
class AmxProduct {
 public:
  static constexpr BlockProducts Products() { return {Begin, Product, Ops::Release}; }

 private:
  static constexpr int64_t kRowBytes = 64;

  static void Begin() {
    TileConfig config;
    config.palette = 1;
    for (int tile = 0; tile < 8; ++tile) {
      config.rows[tile] = 16;
      config.row_bytes[tile] = kRowBytes;
    }
    Ops::LoadConfig(config);
  }

  template <int T>
  static void Start(float* c, bool accumulate) {
    if (accumulate) {
      Ops::template Load<T>(c, kRowBytes);
    } else {
      Ops::template Zero<T>();
    }
  }

  // Up to two rows and columns: parts [0, parts) of one step.
  template <int R, int C>
  static void Step(const BlockProduct& w, int64_t a, int64_t b, int64_t parts) {
    Ops::template Load<4>(w.a[0] + a, w.a_row);
    if constexpr (R > 1) Ops::template Load<5>(w.a[1] + a, w.a_row);
    for (int64_t part = 0; part < parts; ++part, b += kBf16TileFloats) {
      Ops::template Load<6>(w.b[0] + b, kRowBytes);
      Ops::template Dot<0, 4, 6>();
      if constexpr (R > 1) Ops::template Dot<2, 5, 6>();
      if constexpr (C > 1) {
        Ops::template Load<7>(w.b[1] + b, kRowBytes);
        Ops::template Dot<1, 4, 7>();
        if constexpr (R > 1) Ops::template Dot<3, 5, 7>();
      }
    }
  }

  template <int R, int C>
  static void Square(const BlockProduct& w) {
    Start<0>(w.c[0][0], w.accumulate);
    if constexpr (C > 1) Start<1>(w.c[0][1], w.accumulate);
    if constexpr (R > 1) Start<2>(w.c[1][0], w.accumulate);
    if constexpr (R > 1 && C > 1) Start<3>(w.c[1][1], w.accumulate);
    int64_t a = 0, b = 0;
    for (int64_t i = 0; i < w.steps; ++i, a += w.a_step, b += w.b_step) {
      Step<R, C>(w, a, b, w.parts);
    }
    b -= w.again * w.b_step;
    for (int64_t i = 0; i < w.again; ++i, a += w.a_step, b += w.b_step) Step<R, C>(w, a, b, 1);
    Ops::template Store<0>(w.c[0][0], kRowBytes);
    if constexpr (C > 1) Ops::template Store<1>(w.c[0][1], kRowBytes);
    if constexpr (R > 1) Ops::template Store<2>(w.c[1][0], kRowBytes);
    if constexpr (R > 1 && C > 1) Ops::template Store<3>(w.c[1][1], kRowBytes);
  }

  // Three or four rows of one column, one part.
  template <int R>
  static void Column(const BlockProduct& w) {
    Start<0>(w.c[0][0], w.accumulate);
    Start<1>(w.c[1][0], w.accumulate);
    Start<2>(w.c[2][0], w.accumulate);
    if constexpr (R > 3) Start<3>(w.c[3][0], w.accumulate);
    int64_t a = 0, b = 0;
    for (int64_t i = 0; i < w.steps; ++i, a += w.a_step, b += w.b_step) {
      Ops::template Load<4>(w.b[0] + b, kRowBytes);
      Ops::template Load<5>(w.a[0] + a, w.a_row);
      Ops::template Dot<0, 5, 4>();
      Ops::template Load<6>(w.a[1] + a, w.a_row);
      Ops::template Dot<1, 6, 4>();
      Ops::template Load<7>(w.a[2] + a, w.a_row);
      Ops::template Dot<2, 7, 4>();
      if constexpr (R > 3) Ops::template Load<5>(w.a[3] + a, w.a_row);
      if constexpr (R > 3) Ops::template Dot<3, 5, 4>();
    }
    Ops::template Store<0>(w.c[0][0], kRowBytes);
    Ops::template Store<1>(w.c[1][0], kRowBytes);
    Ops::template Store<2>(w.c[2][0], kRowBytes);
    if constexpr (R > 3) Ops::template Store<3>(w.c[3][0], kRowBytes);
  }

  static void Product(const BlockProduct& w) {
    if (w.rows == 4) return Column<4>(w);
    if (w.rows == 3) return Column<3>(w);
    if (w.rows == 2) return w.columns == 2 ? Square<2, 2>(w) : Square<2, 1>(w);
    if (w.columns == 2) return Square<1, 2>(w);
    Square<1, 1>(w);
  }
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_BLOCK_PRODUCT_H_
