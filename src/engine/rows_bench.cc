// Times steps of one or several rows on one sequence by every path, interleaved.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "attention/crossover.h"
#include "base/check.h"
#include "base/float16.h"
#include "engine/available_memory.h"
#include "engine/cache_elem.h"
#include "engine/isas.h"
#include "engine/rates.h"
#include "kernels/isa.h"
#include "kernels/latent_unit.h"
#include "mla/bench.h"

namespace mla {
namespace {

using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

MlaGeometry CheckOptions(const RowsOptions& o) {
  const Geometry& g = o.geometry;
  const MlaGeometry geometry{g.heads, g.nope, g.rope, g.v_dim, g.kv_rank, 0};
  try {
    geometry.Validate();
  } catch (const Error& e) {
    throw Error(ErrorCode::kUsage, e.what());
  }
  const auto expect = [](bool good, const char* name, auto found, const char* expected) {
    if (!good) Fail(ErrorCode::kUsage, "{} is {}; expected {}", name, found, expected);
  };
  constexpr int64_t kMost = int64_t{1} << 31;
  expect(!o.contexts.empty(), "contexts", "empty", "at least one length");
  expect(!o.rows.empty(), "rows", "empty", "at least one number of rows");
  for (int64_t c : o.contexts) expect(c > 0 && c < kMost, "contexts", c, "1 or more tokens");
  for (int64_t r : o.rows) expect(r > 0 && r <= 65536, "rows", r, "1 to 65536");
  expect(o.repeats > 0, "repeats", o.repeats, "1 or more");
  expect(o.most_ms > 0, "max-ms", o.most_ms, "a positive number");
  expect(o.threads >= 0 && o.threads <= 4096, "threads", o.threads,
         "1 to 4096, or 0 for the default");
  return geometry;
}

// Values of order 1, the same in each run.
void Fill(FloatBuffer& buffer, float scale) {
  uint32_t state = 1;
  for (int64_t i = 0; i < buffer.size(); ++i) {
    state = state * 1664525 + 1013904223;
    buffer.data()[i] = scale * (static_cast<float>(state >> 8) * 0x1p-23f - 1);
  }
}

struct Arm {
  const char* name;
  CacheLayout layout;
  AttentionPolicy policy;
  PathStats stats{};
  FloatBuffer out{};
  std::vector<double> ms{};
};

class RowsBench {
 public:
  RowsBench(const RowsOptions& options, const MlaGeometry& g, ThreadPool& pool)
      : options_(options),
        g_(g),
        most_(*std::max_element(options.contexts.begin(), options.contexts.end())),
        scratch_(pool.threads()),
        op_{pool, FastKernels(), scratch_, ChooseLatentUnits(pool, Compute::kAuto, {})},
        workspace_(g, CacheLayout::kLatent, 1),
        plain_(g, CacheLayout::kDecompressed, 1),
        latent_(g, 1, CacheLayout::kLatent, CacheElem(options.dtype), most_),
        decompressed_(g, 1, CacheLayout::kDecompressed, DecompressedElem(CacheElem(options.dtype)),
                      options.decompressed ? most_ : 1),
        weights_(CheckedMul(2, g.fold_elements(), "kv_b_proj")),
        q_(*std::max_element(options.rows.begin(), options.rows.end()) * g.heads * g.qk_dim()) {
    for (const CacheLayout layout : {CacheLayout::kLatent, CacheLayout::kDecompressed}) {
      scratch_.Reserve(AttentionScratchFloats(g, layout, CacheElem(options.dtype), op_.units));
    }
    const float weight_scale = std::sqrt(3 / static_cast<float>(g.kv_rank));
    FloatBuffer row(g.kv_rank);
    Fill(row, weight_scale);
    uint16_t* w = weights_.as<uint16_t>();
    for (int64_t i = 0; i < g.fold_elements(); ++i) {
      const auto at = static_cast<int64_t>((i * 2654435761) % g.kv_rank);
      w[i] = FloatToBf16(row.data()[at]);
    }
    kv_b_.weight = {w, g.kv_b_rows(), g.kv_rank, g.kv_rank, DType::kBf16};
    fold_ = BuildFold(g, kv_b_);
    Fill(q_, 3 / std::sqrt(static_cast<float>(g.qk_dim())));
    FillCaches();
  }

  void Calibrate(RowsReport& report) {
    const auto start = Clock::now();
    costs_ = MeasureCosts(op_, g_, CacheElem(options_.dtype));
    expected_ = ExpectedCosts(g_, latent_.latent_format(op_.units),
                              PrefillUnit(op_, g_, fold_, latent_.type()));
    report.calibration_ms = Milliseconds(start);
    std::vector<DotUnit> units = {DotUnit::kFma};
    for (const DotUnit unit : {op_.units.of_16_bits, op_.units.For(latent_.type())}) {
      if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
    }
    const std::vector<UnitRate> rates = UnitRates(op_.pool, units, 0.05);
    for (size_t i = 0; i < units.size(); ++i) peaks_[units[i]] = rates[i].all / 1e12;
    report.peak_tflops = peaks_[DotUnit::kFma];
    report.measured = Nanoseconds(costs_, 1);
    report.expected = Nanoseconds(expected_, costs_.up_key / expected_.up_key);
  }

  RowsCell Measure(int64_t context, int64_t rows);
  std::string kernel() const { return LatentKernelName(latent_.latent_format(op_.units)); }

 private:
  static RowsReport::Costs Nanoseconds(const AttentionCosts& c, double unit) {
    return {c.absorbed_pair * unit, c.up_key * unit, c.up_pair * unit, c.split.task_keys,
            c.split.merge_keys};
  }
  void FillCaches();
  std::vector<Arm> MakeArms(int64_t context, int64_t rows) const;
  void Step(Arm& arm, int64_t context, int64_t rows, PathStats& stats);
  bool UpProjects(const Arm& arm, int64_t context, int64_t rows) const;
  double Flop(const Arm& arm, int64_t context, int64_t rows) const;
  DotUnit UnitOf(const Arm& arm, int64_t context, int64_t rows) const;

  const RowsOptions& options_;
  MlaGeometry g_;
  int64_t most_;
  ThreadScratch scratch_;
  OpContext op_;
  AttentionWorkspace workspace_, plain_;
  KvCache latent_, decompressed_;
  Buffer weights_;
  Linear kv_b_;
  LayerFold fold_;
  FloatBuffer q_;
  AttentionCosts costs_;  // measured, in nanoseconds
  AttentionCosts expected_;
  std::map<DotUnit, double> peaks_;  // TFLOP/s of all threads
};

void RowsBench::FillCaches() {
  FloatBuffer values(g_.latent_dim() + g_.qk_dim() + g_.v_dim + 4096);
  Fill(values, 1.7f);
  latent_.Extend(most_);
  op_.pool.Run(most_, [&](int64_t p, int) {
    latent_.StoreLatent(op_.kernels, 0, p, values.data() + p * 31 % 4096);
  });
  if (!options_.decompressed) return;
  decompressed_.Extend(most_);
  op_.pool.Run(most_, [&](int64_t p, int) {
    for (int64_t h = 0; h < g_.heads; ++h) {
      const float* key = values.data() + (p * 31 + h * 17) % 4096;
      decompressed_.StoreHead(op_.kernels, 0, h, p, key, key + g_.nope, key + g_.qk_dim());
    }
  });
}

std::vector<Arm> RowsBench::MakeArms(int64_t context, int64_t rows) const {
  std::vector<Arm> arms;
  const auto add = [&](const char* name, DecodeMode mode, int64_t absorbed_rows) {
    Arm arm{name, CacheLayout::kLatent, mode};
    arm.policy.absorbed_rows = absorbed_rows;
    arms.push_back(std::move(arm));
  };
  const double threads = op_.pool.threads();
  const auto heads = static_cast<double>(g_.heads);
  const auto r = static_cast<double>(rows), c = static_cast<double>(context);
  const double pairs = r * c - r * (r - 1) / 2;
  const auto fits = [&](double ns) { return ns * heads / threads / 1e6 <= options_.most_ms; };
  if (fits(pairs * costs_.absorbed_pair)) add("absorbed", DecodeMode::kComposed, rows);
  if (rows == 1) {
    add("split_kv", DecodeMode::kSplitKv, rows);
  } else if (fits(c * costs_.up_key + pairs * costs_.up_pair)) {
    add("up_projected", DecodeMode::kComposed, 0);
  }
  if (!arms.empty()) add("auto", DecodeMode::kAuto, -1);
  if (options_.decompressed) arms.push_back({"decompressed", CacheLayout::kDecompressed, {}});
  for (Arm& arm : arms) arm.out = FloatBuffer(rows * g_.heads * g_.v_dim);
  return arms;
}

void RowsBench::Step(Arm& arm, int64_t context, int64_t rows, PathStats& stats) {
  const bool latent = arm.layout == CacheLayout::kLatent;
  const AttentionItem item{latent ? &latent_ : &decompressed_, 0, rows, context - rows};
  AttentionCall call;
  call.geometry = &g_;
  call.fold = &fold_;
  call.q = q_.data();
  call.out = arm.out.data();
  call.items = {&item, 1};
  call.policy = arm.policy;
  call.stats = &stats;
  RunAttention(op_, latent ? workspace_ : plain_, call);
}

bool RowsBench::UpProjects(const Arm& arm, int64_t context, int64_t rows) const {
  const std::string_view name = arm.name;
  return name == "up_projected" ||
         (name == "auto" && rows > 1 &&
          !PreferAbsorbed(g_, expected_, op_.pool.threads(), rows, context));
}

// What multiplies; int8 rows without a unit count as kFma.
DotUnit RowsBench::UnitOf(const Arm& arm, int64_t context, int64_t rows) const {
  if (arm.layout == CacheLayout::kDecompressed) return DotUnit::kFma;
  return UpProjects(arm, context, rows) ? PrefillUnit(op_, g_, fold_, latent_.type())
                                        : op_.units.For(latent_.type());
}

double RowsBench::Flop(const Arm& arm, int64_t context, int64_t rows) const {
  const auto r = static_cast<double>(rows), c = static_cast<double>(context);
  const double pairs = r * c - r * (r - 1) / 2;
  const std::string_view name = arm.name;
  const bool up = UpProjects(arm, context, rows);
  const AttentionCosts paper(g_);
  double per_head = 0;
  if (name == "decompressed") {
    per_head = pairs * paper.up_pair;
  } else if (up) {
    per_head = c * paper.up_key + pairs * paper.up_pair;
  } else {
    per_head = pairs * paper.absorbed_pair + r * paper.absorbed_row;
  }
  return 2 * per_head * static_cast<double>(g_.heads);
}

RowsCell RowsBench::Measure(int64_t context, int64_t rows) {
  RowsCell cell;
  cell.context = context;
  cell.rows = rows;
  std::vector<Arm> arms = MakeArms(context, rows);
  PathStats untimed;
  for (int64_t i = 0; i < options_.repeats; ++i) {
    for (size_t a = 0; a < arms.size(); ++a) {
      Arm& arm = arms[(a + static_cast<size_t>(i)) % arms.size()];
      // Once untimed: the arm before has left the caches, and the clock, to itself.
      Step(arm, context, rows, untimed);
      const auto start = Clock::now();
      Step(arm, context, rows, arm.stats);
      arm.ms.push_back(Milliseconds(start));
    }
  }
  double best = 0, automatic = 0;
  for (Arm& arm : arms) {
    std::sort(arm.ms.begin(), arm.ms.end());
    RowsArm result;
    result.arm = arm.name;
    result.ms = arm.ms[arm.ms.size() / 2];
    result.tflops = Flop(arm, context, rows) / result.ms / 1e9;
    const DotUnit unit = UnitOf(arm, context, rows);
    result.kernel = DotUnitName(unit);
    result.peak_tflops = peaks_.at(unit);
    const auto& s = arm.stats;
    result.paths = {s[AttentionPath::kDecompressed], s[AttentionPath::kAbsorbedPrefill],
                    s[AttentionPath::kAbsorbedComposed], s[AttentionPath::kAbsorbedSplitKv]};
    if (arm.layout == CacheLayout::kLatent) {
      double most = 0, difference = 0;
      for (int64_t i = 0; i < arm.out.size(); ++i) {
        const auto want = static_cast<double>(arms[0].out.data()[i]);
        most = std::max(most, std::fabs(want));
        const double d = std::fabs(static_cast<double>(arm.out.data()[i]) - want);
        difference = std::isnan(d) ? INFINITY : std::max(difference, d);
      }
      result.max_error = most > 0 ? difference / most : INFINITY;
      if (result.arm == "auto") {
        automatic = result.ms;
      } else {
        best = best == 0 ? result.ms : std::min(best, result.ms);
      }
    }
    cell.arms.push_back(result);
  }
  cell.auto_over_best = best > 0 ? automatic / best : 0;
  return cell;
}

}  // namespace

RowsReport RunRowsBench(const RowsOptions& options,
                        const std::function<void(const RowsReport&)>& on_cell) {
  const MlaGeometry g = CheckOptions(options);
  if (options.isa.empty()) {
    EnsureIsaChosen();
  } else {
    ForceIsa(options.isa);
  }
  const int64_t context = *std::max_element(options.contexts.begin(), options.contexts.end());
  const Elem type = CacheElem(options.dtype);
  int64_t bytes =
      CheckedMul(context + KvCache::kSegmentTokens, LatentBytesPerToken(g, type), "cache bytes");
  if (options.decompressed) {
    bytes += CheckedMul(context + KvCache::kSegmentTokens,
                        DecompressedBytesPerToken(g, DecompressedElem(type)), "cache bytes");
  }
  const int64_t available = AvailableMemory();
  if (bytes > available) {
    Fail(ErrorCode::kResource,
         "a cache of {} tokens takes {} bytes, and {} are available; use smaller --contexts",
         context, bytes, available);
  }
  ThreadPool pool(options.threads > 0 ? options.threads : DefaultThreads());
  RowsReport report;
  report.geometry = options.geometry;
  report.isa = ChosenIsa();
  report.threads = pool.threads();
  RowsBench bench(options, g, pool);
  bench.Calibrate(report);
  report.kernel = bench.kernel();
  for (const int64_t c : options.contexts) {
    for (const int64_t r : options.rows) {
      if (r > c) continue;
      report.cells.push_back(bench.Measure(c, r));
      if (on_cell) on_cell(report);
    }
  }
  return report;
}

}  // namespace mla
