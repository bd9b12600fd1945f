#include "kernels/x86/amx_tiles.h"

#include <cstring>

namespace mla {
namespace {

void SetTile(TileConfig& config, int tile, int rows, int row_bytes) {
  config.rows[tile] = static_cast<uint8_t>(rows);
  config.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
}

// Assembler instead of intrinsics: those of GCC 12 do not tell the compiler which memory they read
// and write, so that it may drop or move the stores before them. The assembler needs no target
// attribute, and the compiler itself never uses tiles.
#if defined(__x86_64__)

void LoadConfig(const TileConfig& config) {
  asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

void StoreConfig(TileConfig* config) { asm volatile("sttilecfg %0" : "=m"(*config) : : "memory"); }

void Load(int tile, const void* base, int64_t stride) {
  switch (tile) {
    case 0:
      asm volatile("tileloadd (%0,%1,1), %%tmm0" : : "r"(base), "r"(stride) : "memory");
      break;
    case 1:
      asm volatile("tileloadd (%0,%1,1), %%tmm1" : : "r"(base), "r"(stride) : "memory");
      break;
    case 2:
      asm volatile("tileloadd (%0,%1,1), %%tmm2" : : "r"(base), "r"(stride) : "memory");
      break;
    default:
      break;
  }
}

void Store(int tile, void* base, int64_t stride) {
  if (tile == 0) {
    asm volatile("tilestored %%tmm0, (%0,%1,1)" : : "r"(base), "r"(stride) : "memory");
  }
}

// AT&T order: the second source (B) first, the destination last.
void DotBf16() { asm volatile("tdpbf16ps %%tmm2, %%tmm1, %%tmm0" : : : "memory"); }
void DotInt8() { asm volatile("tdpbssd %%tmm2, %%tmm1, %%tmm0" : : : "memory"); }
void Release() { asm volatile("tilerelease" : : : "memory"); }

#else

void LoadConfig(const TileConfig&) {}
void StoreConfig(TileConfig*) {}
void Load(int, const void*, int64_t) {}
void Store(int, void*, int64_t) {}
void DotBf16() {}
void DotInt8() {}
void Release() {}

#endif

}  // namespace

const TileOps& RealTileOps() noexcept {
  static constexpr TileOps kOps = {LoadConfig, StoreConfig, Load, Store, DotBf16, DotInt8, Release};
  return kOps;
}

const char* TileProduct(TileType type, DotProduct& product, const TileOps& ops) {
  constexpr int64_t kStride = sizeof(product.a[0]);
  TileConfig config;
  config.palette = 1;
  SetTile(config, 0, product.rows, 4 * product.columns);
  SetTile(config, 1, product.rows, 4 * product.groups);
  SetTile(config, 2, product.groups, 4 * product.columns);
  ops.load_config(config);
  TileConfig taken;
  ops.store_config(&taken);
  if (std::memcmp(&taken, &config, sizeof(config)) != 0) {
    ops.release();
    return "the tile configuration did not take";
  }
  ops.load(0, product.c, kStride);
  ops.load(1, product.a, kStride);
  ops.load(2, product.b, kStride);
  if (type == TileType::kBf16) {
    ops.dot_bf16();
  } else {
    ops.dot_int8();
  }
  ops.store(0, product.c, kStride);
  ops.release();
  return nullptr;
}

int64_t TilePeakLoop([[maybe_unused]] TileType type, [[maybe_unused]] int64_t rounds) noexcept {
#if defined(__x86_64__)
  // A product takes 16 cycles and its sum is there after 52: six independent ones hide that. The
  // other two of the eight tiles are the operands.
  constexpr int64_t kSums = 6;
  constexpr int kRows = 16;
  constexpr int kRowBytes = 64;
  TileConfig config;
  config.palette = 1;
  for (int tile = 0; tile < 8; ++tile) SetTile(config, tile, kRows, kRowBytes);
  // bf16 ones: the sums stop growing at 2^24. As integers the sums wrap, which costs no time
  // either.
  alignas(64) uint8_t ones[kRows * kRowBytes];
  for (int i = 0; i < kRows * kRowBytes; i += 2) {
    ones[i] = 0x80;
    ones[i + 1] = 0x3f;
  }
  LoadConfig(config);
  asm volatile(
      "tileloadd (%0,%1,1), %%tmm6\n\t"
      "tileloadd (%0,%1,1), %%tmm7\n\t"
      "tilezero %%tmm0\n\t"
      "tilezero %%tmm1\n\t"
      "tilezero %%tmm2\n\t"
      "tilezero %%tmm3\n\t"
      "tilezero %%tmm4\n\t"
      "tilezero %%tmm5"
      :
      : "r"(ones), "r"(int64_t{kRowBytes})
      : "memory");
  if (type == TileType::kBf16) {
    for (int64_t round = 0; round < rounds; ++round) {
      asm volatile(
          "tdpbf16ps %%tmm7, %%tmm6, %%tmm0\n\t"
          "tdpbf16ps %%tmm7, %%tmm6, %%tmm1\n\t"
          "tdpbf16ps %%tmm7, %%tmm6, %%tmm2\n\t"
          "tdpbf16ps %%tmm7, %%tmm6, %%tmm3\n\t"
          "tdpbf16ps %%tmm7, %%tmm6, %%tmm4\n\t"
          "tdpbf16ps %%tmm7, %%tmm6, %%tmm5"
          :
          :
          : "memory");
    }
  } else {
    for (int64_t round = 0; round < rounds; ++round) {
      asm volatile(
          "tdpbssd %%tmm7, %%tmm6, %%tmm0\n\t"
          "tdpbssd %%tmm7, %%tmm6, %%tmm1\n\t"
          "tdpbssd %%tmm7, %%tmm6, %%tmm2\n\t"
          "tdpbssd %%tmm7, %%tmm6, %%tmm3\n\t"
          "tdpbssd %%tmm7, %%tmm6, %%tmm4\n\t"
          "tdpbssd %%tmm7, %%tmm6, %%tmm5"
          :
          :
          : "memory");
    }
  }
  Release();
  const int64_t depth = type == TileType::kBf16 ? kRowBytes / 2 : kRowBytes;
  return rounds * kSums * kRows * (kRowBytes / 4) * depth * 2;
#else
  return 0;
#endif
}

}  // namespace mla
