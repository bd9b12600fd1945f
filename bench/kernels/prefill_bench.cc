// One tile of many-row attention: 64 keys of one head against a block of query rows. fp32 as the
// up-projected keys and values are, bf16 as a decompressed cache holds them.
#include <limits>

#include "attention/tiles.h"
#include "kernel_bench.h"
#include "kernels/isa.h"

namespace mla {
namespace {

constexpr int64_t kNope = 128, kRope = 64, kValue = 128;
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

}  // namespace

void RegisterPrefillBench(const std::string& isa) {
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
