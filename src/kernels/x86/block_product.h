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
  static constexpr int kMost = 2;

  int rows = 0, columns = 0;      ///< of tiles, 1 or 2
  const char* a[kMost] = {};      ///< row 0 of step 0
  int64_t a_row = 0, a_step = 0;  ///< bytes from one row or step to the next
  const float* b[kMost] = {};     ///< step 0, part 0
  int64_t b_step = 0;             ///< floats from one step to the next; parts follow each other
  int64_t steps = 0, parts = 1;   ///< parts of the second operand that meet the same first one
  float* c[kMost][kMost] = {};    ///< [kBf16Lanes, kBf16Lanes] each
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

/// Ops as in latent_amx.h. Tiles: 0 to 3 sums, 4 and 5 first operands, 6 and 7 second ones.
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
  static void Start(const BlockProduct& w, int i, int j) {
    if (w.accumulate) {
      Ops::template Load<T>(w.c[i][j], kRowBytes);
    } else {
      Ops::template Zero<T>();
    }
  }

  template <int R, int C>
  static void Run(const BlockProduct& w) {
    Start<0>(w, 0, 0);
    if constexpr (C > 1) Start<1>(w, 0, 1);
    if constexpr (R > 1) Start<2>(w, 1, 0);
    if constexpr (R > 1 && C > 1) Start<3>(w, 1, 1);
    const char *a0 = w.a[0], *a1 = w.a[R - 1];
    const float *b0 = w.b[0], *b1 = w.b[C - 1];
    for (int64_t step = 0; step < w.steps; ++step) {
      Ops::template Load<4>(a0, w.a_row);
      if constexpr (R > 1) Ops::template Load<5>(a1, w.a_row);
      for (int64_t part = 0; part < w.parts; ++part) {
        Ops::template Load<6>(b0 + part * kBf16TileFloats, kRowBytes);
        Ops::template Dot<0, 4, 6>();
        if constexpr (R > 1) Ops::template Dot<2, 5, 6>();
        if constexpr (C > 1) {
          Ops::template Load<7>(b1 + part * kBf16TileFloats, kRowBytes);
          Ops::template Dot<1, 4, 7>();
          if constexpr (R > 1) Ops::template Dot<3, 5, 7>();
        }
      }
      a0 += w.a_step;
      a1 += w.a_step;
      b0 += w.b_step;
      b1 += w.b_step;
    }
    Ops::template Store<0>(w.c[0][0], kRowBytes);
    if constexpr (C > 1) Ops::template Store<1>(w.c[0][1], kRowBytes);
    if constexpr (R > 1) Ops::template Store<2>(w.c[1][0], kRowBytes);
    if constexpr (R > 1 && C > 1) Ops::template Store<3>(w.c[1][1], kRowBytes);
  }

  static void Product(const BlockProduct& w) {
    if (w.rows == 2) {
      if (w.columns == 2) return Run<2, 2>(w);
      return Run<2, 1>(w);
    }
    if (w.columns == 2) return Run<1, 2>(w);
    Run<1, 1>(w);
  }
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_BLOCK_PRODUCT_H_
