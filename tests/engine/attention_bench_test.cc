// The attention bench: exact counts, arms that agree, refusals, and the machine figures behind it.
#include <filesystem>
#include <tuple>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "engine/available_memory.h"
#include "engine/isas.h"
#include "engine/machine_peaks.h"
#include "kernels/latent_int8.h"
#include "kernels/latent_unit.h"
#include "mla/bench.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

// All widths differ and none is a multiple of a vector.
BenchOptions Tiny() {
  BenchOptions options;
  options.geometry = {
      .name = "custom", .layers = 3, .heads = 5, .nope = 19, .rope = 6, .v_dim = 11, .kv_rank = 37};
  options.contexts = {300, 1};
  options.batches = {3, 1};
  options.steps = 5;
  options.warmup = 2;
  options.threads = 2;
  options.kv_budget_gib = 0.5;
  options.read_bytes = 8 << 20;
  return options;
}

LatentUnits Units(const BenchOptions& options) {
  ThreadPool pool(options.threads);
  return ChooseLatentUnits(pool, Compute::kAuto, {});
}

PathCounts Counts(const std::string& arm, int64_t steps) {
  PathCounts counts;
  if (arm == "decompressed") counts.decompressed = steps;
  // These windows are too short for `auto` to split.
  if (arm == "absorbed" || arm == "auto") counts.absorbed_composed = steps;
  if (arm == "split_kv") counts.absorbed_split_kv = steps;
  return counts;
}

TEST(AttentionBench, EveryArmTakesItsOwnPathOncePerStep) {
  const BenchOptions options = Tiny();
  int lines = 0;
  const BenchReport report = RunAttentionBench(options, [&](std::string_view) { ++lines; });
  EXPECT_GT(lines, 4);
  EXPECT_TRUE(report.ok());
  const char* const arms[] = {"decompressed", "absorbed", "split_kv", "auto"};
  const std::string latent_kernel = DotUnitName(Units(options).of_16_bits);
  ASSERT_EQ(report.rows.size(), 16u);
  size_t i = 0;
  for (int64_t context : options.contexts) {
    for (int64_t batch : options.batches) {
      for (const char* arm : arms) {
        const BenchRow& row = report.rows[i++];
        SCOPED_TRACE(fmt::format("{} batch {} context {}", arm, batch, context));
        EXPECT_EQ(row.arm, arm);
        EXPECT_EQ(row.batch, batch);
        EXPECT_EQ(row.context, context);
        // `auto` decides by window, threads and costs; all of its steps alike.
        const bool cut = row.arm == "auto" && row.paths.absorbed_split_kv > 0;
        EXPECT_EQ(FormatPaths(row.paths),
                  FormatPaths(Counts(cut ? "split_kv" : arm, options.steps)));
        EXPECT_TRUE(row.ok) << row.warning;
        EXPECT_EQ(row.threads, 2);
        EXPECT_EQ(row.kernel, row.arm == "decompressed" ? "fma" : latent_kernel);
        const int64_t elements = row.arm == "decompressed" ? 5 * (19 + 6 + 11) : 37 + 6;
        EXPECT_EQ(row.kv_bytes, 2 * elements * batch * (context + 1));
        EXPECT_GT(row.ms_per_step, 0);
        EXPECT_GE(row.ms_spread, 0);
        EXPECT_NEAR(row.gbps * row.ms_per_step * 1e6, static_cast<double>(row.kv_bytes),
                    1e-6 * static_cast<double>(row.kv_bytes));
        EXPECT_GT(row.limit_fraction, 0);
      }
    }
  }
}

TEST(AttentionBench, Int8LatentsNameTheirOwnKernel) {
  BenchOptions options = Tiny();
  options.dtype = CacheType::kInt8;
  const BenchReport report = RunAttentionBench(options, {}, {});
  ASSERT_FALSE(report.rows.empty());
  const std::string latent_kernel = Int8LatentFamily(Units(options).of_int8);
  for (const BenchRow& row : report.rows) {
    EXPECT_EQ(row.kernel, row.arm == "decompressed" ? "fma" : latent_kernel);
  }
}

TEST(AttentionBench, ArmsAgreeWithinTheRoundingOfTheCache) {
  BenchOptions options = Tiny();
  options.batches = {2};
  options.contexts = {129};
  for (const auto& [type, lowest, highest] :
       {std::tuple(CacheType::kF32, 0.0, 1e-4), std::tuple(CacheType::kF16, 1e-5, 4e-3),
        std::tuple(CacheType::kBf16, 1e-4, 2e-2)}) {
    SCOPED_TRACE(CacheTypeName(type));
    options.dtype = type;
    const BenchReport report = RunAttentionBench(options);
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report.rows[0].max_error, 0);
    for (size_t i = 1; i < report.rows.size(); ++i) {
      // Not zero either: the layouts round different numbers, so equal outputs would mean that the
      // arms did not compute apart from each other.
      EXPECT_GT(report.rows[i].max_error, lowest);
      EXPECT_LT(report.rows[i].max_error, highest);
    }
  }
}

TEST(AttentionBench, ColdStepsAreStepsLikeOthers) {
  BenchOptions options = Tiny();
  options.contexts = {300};
  options.cold = true;
  const BenchReport report = RunAttentionBench(options);
  EXPECT_TRUE(report.cold);
  EXPECT_TRUE(report.ok());
  EXPECT_FALSE(RunAttentionBench(Tiny()).cold);
}

TEST(AttentionBench, SizesFollowFromTheGeometry) {
  BenchOptions options = Tiny();
  options.steps = 1;
  options.warmup = 0;
  options.split = false;
  const BenchReport report = RunAttentionBench(options);
  EXPECT_EQ(report.rows.size(), 12u);  // no split_kv
  EXPECT_EQ(report.kv.decompressed_bytes_per_token_layer, 2 * 5 * 36);
  EXPECT_EQ(report.kv.latent_bytes_per_token_layer, 2 * 43);
  EXPECT_EQ(report.kv.latent_bytes_per_token, 3 * 2 * 43);
  EXPECT_DOUBLE_EQ(report.kv.ratio, 180.0 / 43.0);
  EXPECT_EQ(report.kv.latent_max_context, (int64_t{1} << 29) / 258);
  EXPECT_EQ(report.kv.decompressed_max_context, (int64_t{1} << 29) / 1080);
  EXPECT_EQ(report.kv.fold_elements, 3 * 5 * 30 * 37);
  EXPECT_EQ(report.kv.fold_bytes, 2 * report.kv.fold_elements);
}

TEST(AttentionBench, RefusesWhatMakesNoSense) {
  const auto run = [](auto change) {
    return [change] {
      BenchOptions options = Tiny();
      change(options);
      RunAttentionBench(options);
    };
  };
  const ErrorCode usage = ErrorCode::kUsage;
  ExpectError(usage, {"qk_rope_head_dim", "7"}, run([](auto& o) { o.geometry.rope = 7; }));
  ExpectError(usage, {"0"}, run([](auto& o) { o.geometry.heads = 0; }));
  ExpectError(usage, {"layers is -1"}, run([](auto& o) { o.geometry.layers = -1; }));
  ExpectError(usage, {"63 bits"}, run([](auto& o) {
                o.geometry.heads = o.geometry.nope = o.geometry.kv_rank = 1 << 20;
              }));
  ExpectError(usage, {"steps is 0"}, run([](auto& o) { o.steps = 0; }));
  ExpectError(usage, {"warmup is -1"}, run([](auto& o) { o.warmup = -1; }));
  ExpectError(usage, {"contexts is 0"}, run([](auto& o) { o.contexts = {5, 0}; }));
  ExpectError(usage, {"contexts is empty"}, run([](auto& o) { o.contexts = {}; }));
  ExpectError(usage, {"batches is -2"}, run([](auto& o) { o.batches = {-2}; }));
  ExpectError(usage, {"threads is -1"}, run([](auto& o) { o.threads = -1; }));
  ExpectError(usage, {"nosuch"}, run([](auto& o) { o.isa = "nosuch"; }));
}

TEST(AttentionBench, SaysWhatDoesNotFitIntoMemory) {
  BenchOptions options = Tiny();
  options.contexts = {int64_t{1} << 34};
  options.batches = {1000};
  ExpectError(ErrorCode::kResource, {"1000 sequences", "17179869184 tokens", "GiB are available"},
              [&] { RunAttentionBench(options); });
}

TEST(MachinePeaks, CoverEveryInstructionSetAndRestoreTheChosenOne) {
  ThreadPool pool(2);
  std::vector<IsaInfo> before = Isas();
  const BenchPeaks peaks = MeasurePeaks(pool, 16 << 20);
  std::vector<IsaInfo> after = Isas();
  EXPECT_GT(peaks.read_gbps, 0.05);
  EXPECT_LT(peaks.read_gbps, 20000);
  size_t detected = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].chosen, after[i].chosen) << before[i].name;
    // Names that are an ISA with a unit have no peak of their own.
    if (before[i].name == "amx" || before[i].name == "avx512_bf16") continue;
    EXPECT_EQ(peaks.tflops.count(before[i].name), before[i].detected ? 1u : 0u);
    detected += before[i].detected ? 1 : 0;
  }
  EXPECT_EQ(peaks.tflops.size(), detected);
  EXPECT_EQ(peaks.units.count("fma"), 1u);
  for (const auto& [unit, tops] : peaks.units) EXPECT_GT(tops, 1e-5) << unit;
  for (const auto& [isa, tflops] : peaks.tflops) {
    EXPECT_GT(tflops, 1e-5) << isa;
    EXPECT_LT(tflops, 1000) << isa;
  }
}

TEST(MachinePeaks, ReadBufferIsBounded) {
  constexpr int64_t kMib = int64_t{1} << 20;
  EXPECT_GE(ReadBufferBytes(int64_t{1} << 50), 512 * kMib);
  EXPECT_LE(ReadBufferBytes(int64_t{1} << 50), 2048 * kMib);
  EXPECT_EQ(ReadBufferBytes(400 * kMib), 100 * kMib);
  EXPECT_EQ(ReadBufferBytes(0), 4 * kMib);
}

TEST(AvailableMemory, IsTheSmallestOfSystemAndCgroups) {
  TempDir root;
  for (const char* directory : {"proc/self", "sys/fs/cgroup/a/b", "sys/fs/cgroup/memory/x"}) {
    std::filesystem::create_directories(root.File(directory));
  }
  root.Write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n");
  EXPECT_EQ(AvailableMemory(root.path()), 5000 * 1024);
  root.Write("proc/self/cgroup", "0::/a/b\n");
  root.Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  root.Write("sys/fs/cgroup/a/memory.max", "1000000\n");
  root.Write("sys/fs/cgroup/a/memory.current", "700000\n");
  root.Write("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 100000\n");
  EXPECT_EQ(AvailableMemory(root.path()), 400000);
  root.Write("proc/self/cgroup", "4:cpu,memory:/x\n");
  root.Write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "50000\n");
  root.Write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "60000\n");
  EXPECT_EQ(AvailableMemory(root.path()), 0);
  EXPECT_GT(AvailableMemory(), 0);
}

}  // namespace
}  // namespace mla
