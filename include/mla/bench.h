// The benches: what the machine reaches, and one MLA block per decode step, every path, against it.
// Called by: applications (`mla bench`). Thread-safety: one run at a time per process.
// The JSON that the commands print has these fields under the same names (docs/json.md).
#ifndef MLA_BENCH_H_
#define MLA_BENCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mla/engine.h"
#include "mla/options.h"
#include "mla/tools.h"

namespace mla {

struct BenchOptions {
  Geometry geometry;                                  ///< of every layer
  std::vector<int64_t> contexts{4096, 16384, 32768};  ///< cached tokens before the first step
  std::vector<int64_t> batches{1, 4};                 ///< sequences per step
  int64_t steps = 64;                                 ///< timed steps per row
  int64_t warmup = 16;                                ///< steps before them
  CacheType dtype = CacheType::kBf16;
  int threads = 0;            ///< 0: the default (see LoadOptions)
  std::string isa;            ///< "": environment MLA_ISA, else the best
  bool split = true;          ///< false: no split_kv arm
  double kv_budget_gib = 16;  ///< for the longest context that fits
  int64_t read_bytes = 0;     ///< buffer of the bandwidth measurement; 0: larger than the caches
  /// Reads that buffer before each step, so that the step finds nothing in the processor's caches:
  /// as in a model, where the weights and the other layers pass through them in between.
  bool cold = false;
};

/// What the machine reaches with all threads, measured in the same run: the best of many passes
/// before and after the rows. Multiply-adds are fp32, the arithmetic of these kernels.
struct BenchPeaks {
  double read_gbps = 0;                  ///< memory read, all threads, 1e9 bytes/s
  std::map<std::string, double> tflops;  ///< by ISA, all threads, 1e12 FLOP/s
  /// By unit that works in every thread (see BenchRow::kernel), all threads, 1e12 operations/s.
  std::map<std::string, double> units;
};

/// Sizes that follow from the geometry and dtype.
struct BenchKv {
  int64_t decompressed_bytes_per_token_layer = 0;
  int64_t latent_bytes_per_token_layer = 0;
  int64_t decompressed_bytes_per_token = 0;  ///< all layers
  int64_t latent_bytes_per_token = 0;        ///< all layers
  double ratio = 0;                          ///< decompressed / latent
  double budget_gib = 0;
  int64_t decompressed_max_context = 0;  ///< tokens that the budget holds
  int64_t latent_max_context = 0;
  int64_t fold_elements = 0;  ///< all layers
  int64_t fold_bytes = 0;     ///< as the bench holds them
};

/// One arm at one batch and context. The arms of a (batch, context) are timed interleaved, on the
/// same inputs. A step appends one row per sequence to the cache of one layer and attends to the
/// context and that row. The decompressed arm is the oracle of the others.
struct BenchRow {
  std::string arm;  ///< "decompressed", "absorbed", "split_kv", "auto"
  int64_t batch = 0;
  int64_t context = 0;
  double ms_per_step = 0;  ///< median of the timed steps
  double ms_spread = 0;    ///< 90th minus 10th percentile
  double gbps = 0;         ///< cache bytes read per second, 1e9
  double tflops = 0;       ///< the arm's arithmetic per second, projections included, 1e12
  /// Reached / min(best ISA's peak, read bandwidth x intensity). As measured: above 1 where the
  /// caches of a row stay in the last-level cache, which is faster than memory.
  double limit_fraction = 0;
  int64_t kv_bytes = 0;  ///< cache bytes of one layer, all sequences
  double max_error = 0;  ///< max|out - oracle arm| / max|oracle arm|
  std::string isa;
  std::string kernel;
  int threads = 0;
  PathCounts paths;     ///< of the timed region alone: one call per step, whatever the batch
  bool ok = true;       ///< the counters name this arm exactly steps times and the arms agree
  std::string warning;  ///< why not, else empty
};

struct BenchReport {
  BenchPeaks peaks;
  Geometry geometry;
  BenchKv kv;
  bool cold = false;  ///< as in BenchOptions
  std::vector<BenchRow> rows;
  bool ok() const {
    for (const BenchRow& row : rows) {
      if (!row.ok) return false;
    }
    return true;
  }
};

/// `on_progress` receives one line per stage; `on_rows` the report so far and, in it, the index of
/// the first new row, each time that all arms of a (batch, context) are done. Both may be empty.
/// Peaks and limit_fractions are final only in what is returned. Throws Error: kUsage for a
/// geometry or an option that makes no sense, kResource if the caches do not fit into memory: one
/// layer in both layouts, for the largest batch at the longest context.
BenchReport RunAttentionBench(const BenchOptions& options,
                              const std::function<void(std::string_view)>& on_progress = {},
                              const std::function<void(const BenchReport&, size_t)>& on_rows = {});

/// Steps of several rows on one sequence: `mla bench prefill` and `mla bench crossover`.
struct RowsOptions {
  Geometry geometry;                                           ///< of the one layer
  std::vector<int64_t> contexts{128, 512, 2048, 8192, 32768};  ///< keys that the last row sees
  std::vector<int64_t> rows{1, 2, 4, 16, 128, 512};            ///< query rows; more than keys: none
  int64_t repeats = 5;        ///< timed, interleaved; the median counts
  double most_ms = 2000;      ///< arms that the measured costs expect to take longer are left out
  bool decompressed = false;  ///< also the arm with a decompressed cache
  CacheType dtype = CacheType::kBf16;
  int threads = 0;  ///< 0: the default (see LoadOptions)
  std::string isa;  ///< "": environment MLA_ISA, else the best
};

/// One arm at one context and number of rows. "absorbed": one pass. "split_kv": one row only.
/// "up_projected": several rows only. "auto": as --attention auto. "decompressed".
struct RowsArm {
  std::string arm;
  double ms = 0;           ///< median
  double tflops = 0;       ///< arithmetic of the arm's own form, 1e12 per second
  std::string kernel;      ///< unit of the arm's attention, as in BenchRow
  double peak_tflops = 0;  ///< of that unit with all threads
  double max_error = 0;    ///< from the first latent arm, over its largest value
  PathCounts paths;
};

struct RowsCell {
  int64_t context = 0;
  int64_t rows = 0;
  std::vector<RowsArm> arms;
  double auto_over_best = 0;  ///< time of auto over the best forced latent arm; 0: none measured
};

struct RowsReport {
  Geometry geometry;
  std::string isa;
  std::string kernel;  ///< unit of the latent kernels for 16-bit rows, as in BenchRow
  int threads = 0;
  double peak_tflops = 0;     ///< fp32 multiply-adds of all threads on the ISA
  double calibration_ms = 0;  ///< what measuring the costs took
  /// Per head and thread: one query row and one key absorbed, up-projecting one key, one query row
  /// and one up-projected key. Of a split, in keys of 16 heads: one task, one partial state.
  struct Costs {
    double absorbed_pair_ns = 0, up_key_ns = 0, up_pair_ns = 0;
    double task_keys = 0, merge_keys = 0;
  };
  Costs measured;
  Costs expected;  ///< what auto goes by, scaled to the same up_key_ns
  std::vector<RowsCell> cells;
};

/// `on_cell` receives each cell when it is done. Throws Error: kUsage for a geometry or an option
/// that makes no sense, kResource if the cache does not fit into memory.
RowsReport RunRowsBench(const RowsOptions& options,
                        const std::function<void(const RowsReport&)>& on_cell = {});

struct PeaksOptions {
  int threads = 0;         ///< 0: the default (see LoadOptions)
  std::string isa;         ///< "": environment MLA_ISA, else the best
  int64_t read_bytes = 0;  ///< buffer of the memory bandwidth; 0: larger than the caches
  LogSink log{};           ///< receives a remark about units that are named but do not work
};

/// Reads of one buffer, front to back, 1e9 bytes/s.
struct ReadPeak {
  int64_t bytes = 0;    ///< of the buffer
  double gbps_one = 0;  ///< one thread
  double gbps_all = 0;  ///< all threads
};

/// fp32 multiply-adds of the portable kernels on one ISA, 1e12 FLOP/s.
struct IsaPeak {
  std::string isa;
  double tflops_one = 0;
  double tflops_all = 0;
};

/// A unit that multiplies and adds: "fma" (fp32 on the chosen ISA), "bf16dot" (vdpbf16ps),
/// "vnni512" and "vnni256" (vpdpbusd on zmm and ymm), "amx-bf16", "amx-int8".
struct UnitPeak {
  std::string unit;
  bool detected = false;  ///< the processor names it, and the system allows it
  bool usable = false;    ///< a small known product was right in every thread
  bool fits_isa = false;  ///< not wider than the chosen ISA
  std::string why_not;    ///< empty if usable
  double tops_one = 0;    ///< 1e12 operations/s of one thread, two per multiply-add; 0: not usable
  double tops_all = 0;    ///< of all threads
};

struct PeaksReport {
  std::string cpu;
  std::string isa;  ///< chosen: reads and the unit "fma" run on it
  int threads = 0;
  int64_t l1d_bytes = 0, l2_bytes = 0, l3_bytes = 0;  ///< 0: none, or not known
  ReadPeak probe_read;                                ///< what the engine measures at start
  ReadPeak memory_read;                               ///< of a buffer that caches do not hold
  std::vector<IsaPeak> isas;                          ///< of this machine, best first
  std::vector<UnitPeak> units;                        ///< all that the build knows
  std::string latent_16bit;  ///< unit that the engine prefers for a 16-bit latent: the fastest
  std::string latent_int8;   ///< for an int8 latent; "none" if there is none
};

/// Measures the machine in about three seconds. Throws Error: kUsage for an option that makes no
/// sense, kResource if threads or memory are not to be had.
PeaksReport RunPeaksBench(const PeaksOptions& options);

}  // namespace mla

#endif  // MLA_BENCH_H_
