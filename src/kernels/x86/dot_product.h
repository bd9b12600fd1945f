// The tiny known product that a dot unit is tried on, in the layout that the units share.
// Called by: dot_units, amx_tiles, dot_vectors. Thread-safety: values and pure functions.
#ifndef MLA_KERNELS_X86_DOT_PRODUCT_H_
#define MLA_KERNELS_X86_DOT_PRODUCT_H_

#include <cstdint>

namespace mla {

/// C[m,n] += sum over k of A[m,k] B[k,n], in groups of four bytes along k: two bf16 or four 8-bit
/// integers. Each row is 64 bytes apart, one tile row or one zmm register, so that the same bytes
/// serve tiles and vectors (Intel SDM, TDPBF16PS, TDPBSSD, VDPBF16PS, VPDPBUSD):
///   a[m]  groups 0..groups-1 of row m
///   b[g]  group g of columns 0..columns-1, one after the other
///   c[m]  fp32 or int32, columns 0..columns-1
/// Integers are unsigned in A and signed in B. What lies behind the columns and groups is neither
/// read (as part of the result) nor written.
struct DotProduct {
  int rows = 0;
  int columns = 0;
  int groups = 0;
  alignas(64) uint8_t a[16][64];
  alignas(64) uint8_t b[16][64];
  alignas(64) uint8_t c[16][64];
};

}  // namespace mla

#endif  // MLA_KERNELS_X86_DOT_PRODUCT_H_
