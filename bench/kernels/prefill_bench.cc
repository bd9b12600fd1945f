// Many-row attention of one head. attend_tile: 64 keys against a block of query rows, fp32 as
// up-projected keys and values are, bf16 as a decompressed cache holds them. prefill: a window of
// latent rows that is up-projected, by the units that do that.
#include <limits>

#include "attention/kv_cache.h"
#include "attention/tiles.h"
#include "kernel_bench.h"
#include "kernels/isa.h"
#include "kernels/prefill.h"

namespace mla {
namespace {

constexpr int64_t kNope = 128, kRope = 64, kValue = 128;
constexpr int64_t kRank = 512, kKeys = 4096;
constexpr int64_t kRows[] = {16, 64, 512};

void BenchTile(benchmark::State& state, const std::string& isa, Elem type, int64_t rows) {
  ForceIsaByName(isa);
  const int64_t width = kNope + kRope;
  const FloatBuffer q = RandomFloats(rows * width, 1 / 14.0, 1);
  const Buffer k = RandomElems(kAttendTileRows * width, type, 1, 2);
  const Buffer k_rope = RandomElems(kAttendTileRows * kRope, Elem::kF16, 1, 3);
  const Buffer v = RandomElems(kAttendTileRows * kValue, type, 1, 4);
  const FloatBuffer memory(TileState::Floats(rows, kValue));
  const TileState tile = TileState::At(memory.data(), rows, kValue);
  AttendTileArgs args;
  args.q = q.data();
  args.q_stride = width;
  args.k = k.data();
  args.k_stride = width;
  args.v = v.data();
  args.v_stride = kValue;
  args.type = type;
  args.m = rows;
  args.t = kAttendTileRows;
  args.dk = width;
  if (type != Elem::kF32) {
    args.k_rope = k_rope.data();
    args.k_rope_stride = kRope;
    args.rope_type = Elem::kF16;
    args.dr = kRope;
    args.dk = kNope;
  }
  args.dv = kValue;
  args.max = tile.max;
  args.sum = tile.sum;
  args.acc = tile.acc;
  args.acc_stride = kValue;
  args.scratch = tile.scores;
  // The state goes on from one iteration to the next, as over a long window.
  for (auto _ : state) {
    AttendTile(args);
    benchmark::DoNotOptimize(tile.acc);
    benchmark::ClobberMemory();
  }
  SetRates(state, 2.0 * static_cast<double>(rows * kAttendTileRows * (width + kValue)), 0);
}

void BenchPrefill(benchmark::State& state, const std::string& isa, DotUnit unit, int64_t rows) {
  ForceIsaByName(isa);
  const MlaGeometry geometry{
      .heads = 1, .nope = kNope, .rope = kRope, .v_dim = kValue, .kv_rank = kRank};
  KvCache cache(geometry, 1, CacheLayout::kLatent, Elem::kBf16, kKeys);
  cache.Extend(kKeys);
  const FloatBuffer pool = RandomFloats(4096 + kRank + kRope, 1, 1);
  for (int64_t p = 0; p < kKeys; ++p) {
    cache.StoreLatent(FastKernels(), 0, p, pool.data() + p * 31 % 4096);
  }
  const FloatBuffer q = RandomFloats(rows * (kNope + kRope), 1 / 14.0, 2);
  const Buffer w = RandomElems((kNope + kValue) * kRank, Elem::kBf16, 1 / 22.0, 3);
  PrefillTask task;
  task.q = q.data();
  task.q_row_stride = kNope + kRope;
  task.rows = rows;
  task.nope = kNope;
  task.v_dim = kValue;
  task.format = cache.latent_format(LatentUnits().Use(unit));
  task.w_uk = w.data();
  task.w_uv = w.as<uint16_t>() + kNope * kRank;
  task.w_stride = kRank;
  const FloatBuffer scratch(PrefillScratchFloats(task.format, rows, kNope, kValue));
  const FloatBuffer out(rows * kValue);
  task.scratch = scratch.data();
  task.out = out.data();
  task.out_row_stride = kValue;
  for (auto _ : state) {
    PrefillBegin(task);
    for (int64_t p = 0; p < kKeys; p += kLatentTileRows) {
      PrefillTile(task, {.data = cache.LatentRow(0, p),
                         .count = kLatentTileRows,
                         .visible = kKeys - rows + 1 - p});
    }
    PrefillFinish(task);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  const auto pairs = static_cast<double>(rows * kKeys - rows * (rows - 1) / 2);
  SetRates(state,
           2 * (pairs * (kNope + kRope + kValue) +
                static_cast<double>(kKeys * kRank * (kNope + kValue))),
           0);
}

}  // namespace

void RegisterPrefillBench(const std::string& isa) {
  for (const DotUnit unit : {DotUnit::kBf16Dot, DotUnit::kAmxBf16}) {
    if (!DotUnitFitsIsa(unit, isa) || !TryDotUnit(unit).empty()) continue;
    for (const int64_t rows : kRows) {
      const std::string name =
          "prefill/bf16/rows:" + std::to_string(rows) + "/" + DotUnitName(unit) + "/" + isa;
      benchmark::RegisterBenchmark(
          name.c_str(), [=](benchmark::State& state) { BenchPrefill(state, isa, unit, rows); });
    }
  }
  for (const Elem type : {Elem::kF32, Elem::kBf16}) {
    for (const int64_t rows : kRows) {
      const std::string name = std::string("attend_tile/") + ElemName(type) +
                               "/rows:" + std::to_string(rows) + "/" + isa;
      benchmark::RegisterBenchmark(
          name.c_str(), [=](benchmark::State& state) { BenchTile(state, isa, type, rows); });
    }
  }
}

}  // namespace mla
