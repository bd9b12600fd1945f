// The tile product against a model of the tiles.
#include "kernels/x86/amx_tiles.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/x86/dot_units.h"
#include "support/tile_model.h"

namespace mla {
namespace {

TileModel& tiles = TileModel::Here();

void Load(int t, const void* base, int64_t stride) { tiles.Load(t, base, stride); }
void Store(int t, void* base, int64_t stride) { tiles.Store(t, base, stride); }

constexpr TileOps kModel = {
    [](const TileConfig& c) { tiles.LoadConfig(c); },
    [](TileConfig* c) { *c = tiles.config; },
    Load,
    Store,
    [] { tiles.DotBf16(0, 1, 2); },
    [] { tiles.DotInt8(0, 1, 2); },
    [] { tiles.Release(); },
};

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
  void SetUp() override { tiles = TileModel(); }
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
