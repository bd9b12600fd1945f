#include "mla/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "attention/attention.h"
#include "base/check.h"
#include "engine/attention_bench_data.h"
#include "engine/available_memory.h"
#include "engine/cache_elem.h"
#include "engine/isas.h"
#include "engine/machine_peaks.h"
#include "engine/rates.h"
#include "kernels/isa.h"
#include "kernels/latent_unit.h"

namespace mla {
namespace {

using Clock = std::chrono::steady_clock;
using Progress = std::function<void(std::string_view)>;

constexpr double kGib = 1024.0 * 1024 * 1024;

// The two cache layouts round different numbers, c_kv or K and V, so the arms differ by the error
// of the cache's type. Bounds on max|out - oracle arm| / max|oracle arm|.
double ErrorBound(Elem type) {
  switch (type) {
    case Elem::kF32:
      return 1e-4;
    case Elem::kF16:
      return 4e-3;
    case Elem::kBf16:
    case Elem::kInt8:
      return 2e-2;
  }
  return 0;
}

MlaGeometry CheckOptions(const BenchOptions& o) {
  const Geometry& g = o.geometry;
  const MlaGeometry geometry{.heads = g.heads,
                             .nope = g.nope,
                             .rope = g.rope,
                             .v_dim = g.v_dim,
                             .kv_rank = g.kv_rank,
                             .q_rank = 0};
  geometry.Validate();
  const auto expect = [](bool good, const char* name, auto found, const char* expected) {
    if (!good) Fail(ErrorCode::kUsage, "{} is {}; expected {}", name, found, expected);
  };
  constexpr int64_t kMost = int64_t{1} << 40;
  expect(g.layers > 0, "layers", g.layers, "a positive number");
  expect(!o.contexts.empty(), "contexts", "empty", "at least one length");
  expect(!o.batches.empty(), "batches", "empty", "at least one number of sequences");
  for (int64_t c : o.contexts) expect(c > 0 && c < kMost, "contexts", c, "1 or more tokens");
  for (int64_t b : o.batches) expect(b > 0 && b < kMost, "batches", b, "1 or more sequences");
  expect(o.steps > 0, "steps", o.steps, "1 or more");
  expect(o.warmup >= 0, "warmup", o.warmup, "0 or more");
  expect(o.threads >= 0 && o.threads <= 4096, "threads", o.threads,
         "1 to 4096, or 0 for the default");
  expect(o.read_bytes >= 0, "read_bytes", o.read_bytes, "0 or more");
  expect(o.kv_budget_gib >= 0 && o.kv_budget_gib < 1e9, "kv-budget-gib", o.kv_budget_gib,
         "0 or more");
  return geometry;
}

// A geometry comes from the command line here, so what is wrong with it is wrong usage.
template <typename Fn>
auto AsUsage(Fn fn) {
  try {
    return fn();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kBadInput) throw;
    throw Error(ErrorCode::kUsage, e.what());
  }
}

BenchKv DescribeKv(const BenchOptions& o, const MlaGeometry& g) {
  const auto all_layers = [&](int64_t n) {
    return CheckedMul(n, o.geometry.layers, "cache bytes per token");
  };
  BenchKv kv;
  kv.decompressed_bytes_per_token_layer = DecompressedBytesPerToken(g, CacheElem(o.dtype));
  kv.latent_bytes_per_token_layer = LatentBytesPerToken(g, CacheElem(o.dtype));
  kv.decompressed_bytes_per_token = all_layers(kv.decompressed_bytes_per_token_layer);
  kv.latent_bytes_per_token = all_layers(kv.latent_bytes_per_token_layer);
  kv.ratio = static_cast<double>(kv.decompressed_bytes_per_token) /
             static_cast<double>(kv.latent_bytes_per_token);
  kv.budget_gib = o.kv_budget_gib;
  const auto budget = static_cast<int64_t>(o.kv_budget_gib * kGib);
  kv.decompressed_max_context = budget / kv.decompressed_bytes_per_token;
  kv.latent_max_context = budget / kv.latent_bytes_per_token;
  kv.fold_elements = all_layers(g.fold_elements());
  kv.fold_bytes = CheckedMul(2, kv.fold_elements, "fold bytes");
  return kv;
}

void CheckMemory(const BenchMemory& m, int64_t batch, int64_t context) {
  const int64_t available = AvailableMemory();
  if (m.total <= available) return;
  const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / kGib; };
  const int64_t without = m.total - m.decompressed;
  Fail(ErrorCode::kResource,
       "the caches of {} sequences with {} tokens do not fit into memory: one layer needs {:.2f} "
       "GiB (decompressed {:.2f}, latent {:.2f}, other {:.2f}), {:.2f} GiB are available{}; use "
       "smaller --contexts or --batches",
       batch, context, gib(m.total), gib(m.decompressed), gib(m.latent), gib(m.rest),
       gib(available),
       without <= available ? "; it is the decompressed arm that does not fit, the latent ones "
                              "would"
                            : "");
}

struct Arm {
  const char* name;
  CacheLayout layout;
  DecodeMode mode;
  PathStats stats;
  FloatBuffer out;         // [batch, H, v]
  std::vector<double> ms;  // of the timed steps
  double max_error = 0;
};

// Nearest-rank quantile of sorted values.
double Quantile(const std::vector<double>& sorted, double q) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(std::lround(q * last))];
}

class Bench {
 public:
  Bench(const BenchOptions& options, const MlaGeometry& geometry, int64_t max_batch,
        int64_t max_context, ThreadPool& pool, int64_t read_bytes, const Progress& progress)
      : options_(options),
        g_(geometry),
        pool_(pool),
        scratch_(pool.threads()),
        op_{pool_, FastKernels(), scratch_, ChooseLatentUnits(pool, Compute::kAuto, {})},
        latent_workspace_(g_, CacheLayout::kLatent, max_batch),
        decompressed_workspace_(g_, CacheLayout::kDecompressed, max_batch),
        data_(op_, g_, CacheElem(options.dtype), max_batch, max_context),
        progress_(progress) {
    for (const CacheLayout layout : {CacheLayout::kLatent, CacheLayout::kDecompressed}) {
      scratch_.Reserve(AttentionScratchFloats(g_, layout, CacheElem(options.dtype), op_.units));
    }
    if (options.cold) evict_.emplace(pool, read_bytes);
  }

  // Times all arms at one batch and context, step by step in turn.
  std::vector<BenchRow> Measure(int64_t batch, int64_t context);

 private:
  std::vector<Arm> MakeArms(int64_t batch) const;
  double Step(Arm& arm, const BenchInput& input, int64_t batch, int64_t context);
  void CompareWithOracle(std::vector<Arm>& arms) const;
  BenchRow Report(Arm& arm, int64_t batch, int64_t context) const;
  std::string Complaint(const Arm& arm) const;

  const BenchOptions& options_;
  MlaGeometry g_;
  ThreadPool& pool_;
  ThreadScratch scratch_;
  OpContext op_;
  AttentionWorkspace latent_workspace_;
  AttentionWorkspace decompressed_workspace_;
  BenchData data_;
  std::optional<ReadBuffer> evict_;  // with --cold
  std::vector<AttentionItem> items_;
  const Progress& progress_;
};

std::vector<Arm> Bench::MakeArms(int64_t batch) const {
  std::vector<Arm> arms;
  const auto add = [&](const char* name, CacheLayout layout, DecodeMode mode) {
    arms.push_back({name, layout, mode, {}, FloatBuffer(batch * g_.heads * g_.v_dim), {}, 0});
  };
  add("decompressed", CacheLayout::kDecompressed, DecodeMode::kComposed);
  add("absorbed", CacheLayout::kLatent, DecodeMode::kComposed);
  if (options_.split) add("split_kv", CacheLayout::kLatent, DecodeMode::kSplitKv);
  add("auto", CacheLayout::kLatent, DecodeMode::kAuto);
  return arms;
}

// Appends the input's rows at position `context` and attends to them and all before. The caches may
// be longer: what is behind is not seen. Returns milliseconds.
double Bench::Step(Arm& arm, const BenchInput& input, int64_t batch, int64_t context) {
  const bool latent = arm.layout == CacheLayout::kLatent;
  items_.clear();
  for (int64_t i = 0; i < batch; ++i) {
    const size_t s = static_cast<size_t>(i);
    items_.push_back({latent ? &data_.latent[s] : &data_.decompressed[s], i, 1, context});
  }
  AttentionCall call;
  call.geometry = &g_;
  call.fold = &data_.fold;
  call.q = input.q.data();
  call.out = arm.out.data();
  call.items = items_;
  call.policy = arm.mode;
  call.stats = &arm.stats;
  const auto start = Clock::now();
  if (latent) {
    data_.AppendLatent(op_, input, batch, context);
  } else {
    data_.AppendDecompressed(op_, input, batch, context);
  }
  RunAttention(op_, latent ? latent_workspace_ : decompressed_workspace_, call);
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// arms[0] is the oracle arm. NaN anywhere counts as an infinite error.
void Bench::CompareWithOracle(std::vector<Arm>& arms) const {
  const FloatBuffer& want = arms[0].out;
  for (Arm& arm : arms) {
    double most = 0;
    double difference = 0;
    bool finite = true;
    for (int64_t i = 0; i < want.size(); ++i) {
      const double d = std::fabs(static_cast<double>(arm.out[i]) - static_cast<double>(want[i]));
      finite = finite && std::isfinite(d);
      difference = std::max(difference, d);
      most = std::max(most, std::fabs(static_cast<double>(want[i])));
    }
    const double error = finite && most > 0 ? difference / most : INFINITY;
    arm.max_error = std::max(arm.max_error, error);
  }
}

std::string Bench::Complaint(const Arm& arm) const {
  const PathStats& s = arm.stats;
  const int64_t n = options_.steps;
  const int64_t decompressed = s[AttentionPath::kDecompressed];
  const int64_t composed = s[AttentionPath::kAbsorbedComposed];
  const int64_t split = s[AttentionPath::kAbsorbedSplitKv];
  const int64_t total = decompressed + composed + split + s[AttentionPath::kAbsorbedPrefill];
  const std::string_view name = arm.name;
  // The window is the same in every step, so `auto` must have decided alike.
  const int64_t own = name == "decompressed" ? decompressed
                      : name == "absorbed"   ? composed
                      : name == "split_kv"   ? split
                                             : std::max(composed, split);
  if (own != n || total != n) {
    return fmt::format("{} timed steps, but {} calls on the arm's own path and {} in all", n, own,
                       total);
  }
  const double bound = ErrorBound(CacheElem(options_.dtype));
  if (!(arm.max_error <= bound)) {
    return fmt::format(
        "the output differs from the decompressed arm's by {:.2e} of its largest value; expected "
        "at most {:.0e} with a {} cache",
        arm.max_error, bound, CacheTypeName(options_.dtype));
  }
  return "";
}

BenchRow Bench::Report(Arm& arm, int64_t batch, int64_t context) const {
  std::sort(arm.ms.begin(), arm.ms.end());
  BenchRow row;
  row.arm = arm.name;
  row.batch = batch;
  row.context = context;
  row.ms_per_step = Quantile(arm.ms, 0.5);
  row.ms_spread = Quantile(arm.ms, 0.9) - Quantile(arm.ms, 0.1);
  const bool latent = arm.layout == CacheLayout::kLatent;
  const Elem e = CacheElem(options_.dtype);
  const int64_t tokens = batch * (context + 1);
  row.kv_bytes = tokens * (latent ? LatentBytesPerToken(g_, e) : DecompressedBytesPerToken(g_, e));
  // Per cached token: scores and output. Per sequence: the new row's up-projection, or the folded
  // projections of the query and of the output, which are as much. Two FLOP each.
  const int64_t per_token = latent ? 2 * g_.kv_rank + g_.rope : g_.qk_dim() + g_.v_dim;
  const double flop =
      2.0 * static_cast<double>(g_.heads * per_token) * static_cast<double>(tokens) +
      2.0 * static_cast<double>(batch * g_.fold_elements());
  const double seconds = row.ms_per_step / 1e3;
  const auto bytes = static_cast<double>(row.kv_bytes);
  row.gbps = bytes / seconds / 1e9;
  row.tflops = flop / seconds / 1e12;
  row.max_error = arm.max_error;
  row.isa = ChosenIsa();
  row.kernel = latent ? LatentKernelName(LatentRowFormat(g_, CacheElem(options_.dtype), op_.units))
                      : DotUnitName(DotUnit::kFma);
  row.threads = pool_.threads();
  row.paths = {arm.stats[AttentionPath::kDecompressed], arm.stats[AttentionPath::kAbsorbedPrefill],
               arm.stats[AttentionPath::kAbsorbedComposed],
               arm.stats[AttentionPath::kAbsorbedSplitKv]};
  row.warning = Complaint(arm);
  row.ok = row.warning.empty();
  return row;
}

std::vector<BenchRow> Bench::Measure(int64_t batch, int64_t context) {
  std::vector<Arm> arms = MakeArms(batch);
  for (int64_t step = 0; step < options_.warmup + options_.steps; ++step) {
    const bool timed = step >= options_.warmup;
    if (step == options_.warmup) {
      for (Arm& arm : arms) arm.stats.Reset();
    }
    const BenchInput& input = data_.inputs[static_cast<size_t>(step % kBenchInputs)];
    // A different arm begins each step: none always follows the same neighbour's cache contents.
    for (size_t i = 0; i < arms.size(); ++i) {
      Arm& arm = arms[(i + static_cast<size_t>(step)) % arms.size()];
      if (evict_ && timed) evict_->Read(pool_, Threads::kAll);
      const double ms = Step(arm, input, batch, context);
      if (timed) arm.ms.push_back(ms);
    }
    CompareWithOracle(arms);
  }
  std::vector<BenchRow> rows;
  std::string line = fmt::format("batch {} context {}: ms/step", batch, context);
  for (Arm& arm : arms) {
    rows.push_back(Report(arm, batch, context));
    line += fmt::format(" {} {:.3f}", arm.name, rows.back().ms_per_step);
  }
  if (progress_) progress_(line);
  return rows;
}

// Other work on the machine only ever lowers what is measured.
void KeepBest(BenchPeaks& peaks, const BenchPeaks& again) {
  peaks.read_gbps = std::max(peaks.read_gbps, again.read_gbps);
  for (const auto& [isa, tflops] : again.tflops) {
    peaks.tflops[isa] = std::max(peaks.tflops[isa], tflops);
  }
  for (const auto& [unit, tops] : again.units) {
    peaks.units[unit] = std::max(peaks.units[unit], tops);
  }
}

// reached / min(peak, bandwidth x intensity) with intensity = tflops / gbps of the row. The peak is
// that of the row's unit; of the best ISA for fp32 multiply-adds.
void RateRows(BenchReport& report) {
  double best_isa = 0;
  for (const auto& [isa, tflops] : report.peaks.tflops) best_isa = std::max(best_isa, tflops);
  for (BenchRow& row : report.rows) {
    const auto unit = report.peaks.units.find(row.kernel);
    const bool own = unit != report.peaks.units.end() && row.kernel != DotUnitName(DotUnit::kFma);
    const double peak = own ? unit->second : best_isa;
    row.limit_fraction = std::max(row.tflops / peak, row.gbps / report.peaks.read_gbps);
  }
}

}  // namespace

BenchReport RunAttentionBench(const BenchOptions& options, const Progress& on_progress,
                              const std::function<void(const BenchReport&, size_t)>& on_rows) {
  const auto progress = [&](const std::string& line) {
    if (on_progress) on_progress(line);
  };
  BenchReport report;
  report.geometry = options.geometry;
  report.cold = options.cold;
  const MlaGeometry geometry = AsUsage([&] { return CheckOptions(options); });
  report.kv = AsUsage([&] { return DescribeKv(options, geometry); });
  if (options.isa.empty()) {
    EnsureIsaChosen();
  } else {
    ForceIsa(options.isa);
  }
  const int64_t batch = *std::max_element(options.batches.begin(), options.batches.end());
  const int64_t context = *std::max_element(options.contexts.begin(), options.contexts.end());
  const int threads = options.threads > 0 ? options.threads : DefaultThreads();
  CheckMemory(AsUsage([&] {
                return PlanBenchMemory(geometry, CacheElem(options.dtype), batch, context, threads);
              }),
              batch, context);

  ThreadPool pool(threads);
  progress("measuring the machine's peaks");
  const int64_t read_bytes =
      options.read_bytes > 0 ? options.read_bytes : ReadBufferBytes(AvailableMemory());
  report.peaks = MeasurePeaks(pool, read_bytes);
  progress(fmt::format("filling {} caches of {} tokens in both layouts", batch, context));
  Bench bench(options, geometry, batch, context, pool, read_bytes, on_progress);
  for (int64_t c : options.contexts) {
    for (int64_t b : options.batches) {
      const size_t first = report.rows.size();
      for (BenchRow& row : bench.Measure(b, c)) report.rows.push_back(std::move(row));
      RateRows(report);
      if (on_rows) on_rows(report, first);
    }
  }
  progress("measuring the machine's peaks again");
  KeepBest(report.peaks, MeasurePeaks(pool, read_bytes));
  RateRows(report);
  return report;
}

}  // namespace mla
