// The tile product against a model of the tiles that follows Intel's pseudo-code (SDM volume 2,
// LDTILECFG, TILELOADD, TDPBF16PS, TDPBUSD), with every condition under which a processor faults.
#include "kernels/x86/amx_tiles.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/x86/dot_units.h"

namespace mla {
namespace {

struct Tiles {
  TileConfig config;  // palette 0: not configured
  uint8_t data[8][16][64];
  std::string fault;
  bool takes_config = true;
  int row_bytes(int t) const { return config.row_bytes[t]; }
  int rows(int t) const { return config.rows[t]; }
  void Check(bool good, const char* what) {
    if (!good && fault.empty()) fault = what;
  }
};

Tiles tiles;

void LoadConfig(const TileConfig& c) {
  tiles.Check(c.palette == 0 || c.palette == 1, "#GP: palette");
  tiles.Check(c.start_row == 0, "start row");
  for (uint8_t byte : c.reserved) tiles.Check(byte == 0, "#GP: reserved byte");
  for (int t = 0; t < 16; ++t) {
    tiles.Check(t < 8 || (c.row_bytes[t] == 0 && c.rows[t] == 0), "#GP: tile above 7");
    tiles.Check(c.row_bytes[t] <= 64 && c.rows[t] <= 16, "#GP: tile too large");
    tiles.Check((c.row_bytes[t] == 0) == (c.rows[t] == 0), "one size is zero");
  }
  if (!tiles.takes_config) return;
  tiles.config = c;
  std::memset(tiles.data, 0, sizeof(tiles.data));
}

void StoreConfig(TileConfig* c) { *c = tiles.config; }

void Load(int t, const void* base, int64_t stride) {
  tiles.Check(tiles.rows(t) > 0, "#UD: load of a tile without size");
  std::memset(tiles.data[t], 0, sizeof(tiles.data[t]));
  for (int row = 0; row < tiles.rows(t); ++row) {
    std::memcpy(tiles.data[t][row], static_cast<const uint8_t*>(base) + row * stride,
                static_cast<size_t>(tiles.row_bytes(t)));
  }
}

void Store(int t, void* base, int64_t stride) {
  tiles.Check(tiles.rows(t) > 0, "#UD: store of a tile without size");
  for (int row = 0; row < tiles.rows(t); ++row) {
    std::memcpy(static_cast<uint8_t*>(base) + row * stride, tiles.data[t][row],
                static_cast<size_t>(tiles.row_bytes(t)));
  }
}

void CheckSizes() {
  tiles.Check(tiles.config.palette == 1, "#UD: not configured");
  tiles.Check(tiles.row_bytes(0) % 4 == 0 && tiles.row_bytes(1) % 4 == 0, "#UD: not in fours");
  tiles.Check(tiles.row_bytes(0) == tiles.row_bytes(2), "#UD: columns of C and B");
  tiles.Check(tiles.rows(0) == tiles.rows(1), "#UD: rows of C and A");
  tiles.Check(tiles.row_bytes(1) == 4 * tiles.rows(2), "#UD: depth of A and B");
}

template <typename T>
T At(int t, int row, int index) {
  T value;
  std::memcpy(&value, tiles.data[t][row] + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

float FromBf16(uint16_t upper) {
  const uint32_t bits = uint32_t{upper} << 16;
  float f = 0;
  std::memcpy(&f, &bits, sizeof(f));
  return f;
}

void DotBf16() {
  CheckSizes();
  for (int m = 0; m < tiles.rows(0); ++m) {
    for (int n = 0; n < tiles.row_bytes(0) / 4; ++n) {
      float even = 0, odd = 0;
      for (int k = 0; k < tiles.row_bytes(1) / 4; ++k) {
        even += FromBf16(At<uint16_t>(1, m, 2 * k)) * FromBf16(At<uint16_t>(2, k, 2 * n));
        odd += FromBf16(At<uint16_t>(1, m, 2 * k + 1)) * FromBf16(At<uint16_t>(2, k, 2 * n + 1));
      }
      const float sum = At<float>(0, m, n) + (even + odd);
      std::memcpy(tiles.data[0][m] + 4 * n, &sum, sizeof(sum));
    }
  }
}

void DotInt8() {
  CheckSizes();
  for (int m = 0; m < tiles.rows(0); ++m) {
    for (int n = 0; n < tiles.row_bytes(0) / 4; ++n) {
      int32_t sum = At<int32_t>(0, m, n);
      for (int k = 0; k < tiles.row_bytes(1) / 4; ++k) {
        for (int i = 0; i < 4; ++i)
          sum += At<uint8_t>(1, m, 4 * k + i) * At<int8_t>(2, k, 4 * n + i);
      }
      std::memcpy(tiles.data[0][m] + 4 * n, &sum, sizeof(sum));
    }
  }
}

void Release() { tiles.config = TileConfig(); }

constexpr TileOps kModel = {LoadConfig, StoreConfig, Load, Store, DotBf16, DotInt8, Release};

CpuWords CpuWithAmx() {
  CpuWords words;
  words.leaf7_edx = 1u << 22 | 1u << 24 | 1u << 25;
  words.leaf1d_eax = 1;
  words.leaf1d_1_eax = 1024u << 16 | 8192u;
  words.leaf1d_1_ebx = 8u << 16 | 64u;
  words.leaf1d_1_ecx = 16;
  words.xcr0 = 0x602e7;
  return words;
}

int Granted() { return 0; }

const char* ModelProduct(DotUnit unit, DotProduct& product) {
  return TileProduct(unit == DotUnit::kAmxBf16 ? TileType::kBf16 : TileType::kInt8, product,
                     kModel);
}

constexpr DotUnitSystem kSystem = {CpuWithAmx, Granted, ModelProduct};

class AmxTiles : public testing::Test {
 protected:
  void SetUp() override { tiles = Tiles(); }
};

TEST_F(AmxTiles, ConfigurationHasIntelsLayout) {
  TileConfig config;
  config.palette = 1;
  config.row_bytes[2] = 0x1234;
  config.rows[2] = 7;
  uint8_t bytes[64];
  std::memcpy(bytes, &config, 64);
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(bytes[i], i == 0 ? 1 : i == 20 ? 0x34 : i == 21 ? 0x12 : i == 50 ? 7 : 0) << i;
  }
}

TEST_F(AmxTiles, KnownProductsAreRightOnTheModel) {
  for (DotUnit unit : {DotUnit::kAmxBf16, DotUnit::kAmxInt8}) {
    EXPECT_EQ(TryDotUnit(unit, kSystem), "") << DotUnitName(unit);
    EXPECT_EQ(tiles.fault, "");
    EXPECT_EQ(tiles.config.palette, 0) << "tiles were not released";
  }
}

TEST_F(AmxTiles, ConfigurationThatDoesNotTakeIsNoticedBeforeATileIsTouched) {
  tiles.takes_config = false;
  for (DotUnit unit : {DotUnit::kAmxBf16, DotUnit::kAmxInt8}) {
    EXPECT_EQ(TryDotUnit(unit, kSystem), "the tile configuration did not take");
    EXPECT_EQ(tiles.fault, "");
  }
}

TEST_F(AmxTiles, WrongOperationsAreNoticed) {
  // The other instruction, as a stand-in for any operation that computes something else.
  DotUnitSystem crossed = kSystem;
  crossed.product = [](DotUnit unit, DotProduct& product) {
    return TileProduct(unit == DotUnit::kAmxBf16 ? TileType::kInt8 : TileType::kBf16, product,
                       kModel);
  };
  for (DotUnit unit : {DotUnit::kAmxBf16, DotUnit::kAmxInt8}) {
    EXPECT_EQ(TryDotUnit(unit, crossed), "its product is wrong");
  }
}

TEST_F(AmxTiles, PermissionAndPaletteAndRegisterStateAreNeeded) {
  for (DotUnit unit : {DotUnit::kAmxBf16, DotUnit::kAmxInt8}) {
    DotUnitSystem system = kSystem;
    system.request_tiles = [] { return 1; };  // EPERM
    EXPECT_NE(TryDotUnit(unit, system).find("refuses the permission"), std::string::npos);
    EXPECT_TRUE(DetectDotUnit(unit, system).named);
    EXPECT_FALSE(DetectDotUnit(unit, system).detected());
    system = kSystem;
    system.cpu = [] {
      CpuWords words = CpuWithAmx();
      words.leaf1d_1_ecx = 8;
      return words;
    };
    EXPECT_NE(TryDotUnit(unit, system).find("palette"), std::string::npos);
    system.cpu = [] {
      CpuWords words = CpuWithAmx();
      words.xcr0 = 0x202e7;  // configuration without data
      return words;
    };
    EXPECT_NE(TryDotUnit(unit, system).find("XCR0 is 0x202e7"), std::string::npos);
    system.cpu = [] {
      CpuWords words = CpuWithAmx();
      words.leaf7_edx &= ~(1u << 24);
      return words;
    };
    EXPECT_NE(TryDotUnit(unit, system).find("does not name AMX-TILE"), std::string::npos);
    EXPECT_FALSE(DetectDotUnit(unit, system).named);
    EXPECT_EQ(tiles.fault, "");
  }
}

}  // namespace
}  // namespace mla
