// A window of cached tokens with the queries of its last rows, and ways to run it.
// Called by: tests of attention and layers. Thread-safety: one thread.
#ifndef MLA_TESTS_SUPPORT_ATTENTION_CASE_H_
#define MLA_TESTS_SUPPORT_ATTENTION_CASE_H_

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "attention/attention.h"
#include "support/op_harness.h"
#include "support/oracle.h"

namespace mla {

/// All widths differ; the second is odder.
inline constexpr MlaGeometry kSmall = {4, 16, 8, 12, 32, 0};
inline constexpr MlaGeometry kOdd = {5, 23, 6, 19, 41, 0};

/// One way through RunAttention.
struct Way {
  const char* name;
  CacheLayout layout;
  DecodeMode mode;
};
inline constexpr Way kDecompressedWay = {"decompressed", CacheLayout::kDecompressed,
                                         DecodeMode::kComposed};
inline constexpr Way kComposedWay = {"composed", CacheLayout::kLatent, DecodeMode::kComposed};
inline constexpr Way kSplitWay = {"split", CacheLayout::kLatent, DecodeMode::kSplitKv};
inline constexpr Way kAllWays[] = {kDecompressedWay, kComposedWay, kSplitWay};

struct AttentionCase {
  /// Normal latents, weights and queries such that scores are of order 1. Positions are
  /// first .. first + length - 1; the queries are those of the last `query_rows` of them.
  AttentionCase(const MlaGeometry& g, int64_t window, int64_t query_rows, uint64_t seed,
                Elem weights = Elem::kF32);

  /// What exact arithmetic gives for a cache of this type and layout, rounding of the stored
  /// elements included; Elem::kF32 is exact but for fp32 keys and values.
  OracleResult Want(CacheLayout layout, Elem type, bool causal = true) const;
  LayerFold Fold() const;

  MlaGeometry geometry;
  int64_t length, rows;
  StoredMatrix kv_b;
  std::vector<float> latent;  // [length, Rk + r]
  std::vector<float> q;       // [rows, H, n + r], scaled
};

/// Writes positions [first, first + latent rows) of `layer`; they must be live.
void WriteRows(KvCache& cache, const MlaGeometry& g, int64_t layer, int64_t first,
               const std::vector<float>& kv_b, const std::vector<float>& latent);

/// Fills every element of the live rows [first, first + count) of all layers.
void FillRows(KvCache& cache, const MlaGeometry& g, int64_t layers, int64_t first, int64_t count,
              float value);

/// A cache of kCaseLayers layers that holds the case's window at `first_position` in layer
/// kCaseLayer. All other storage that it owns is NaN: the other layer, rows before the window and
/// rows after it.
inline constexpr int64_t kCaseLayers = 2;
inline constexpr int64_t kCaseLayer = 1;
std::unique_ptr<KvCache> MakeCache(const AttentionCase& c, CacheLayout layout, Elem type,
                                   int64_t first_position = 0);

/// What caches of every type need.
int64_t AnyScratchFloats(const MlaGeometry& g, CacheLayout layout, const LatentUnits& units = {});

/// Runs calls for one geometry and layout.
class AttentionRunner {
 public:
  AttentionRunner(const MlaGeometry& g, CacheLayout layout, int threads = 2,
                  int64_t max_sequences = 4, const KernelTable& kernels = FastKernels(),
                  const LatentUnits& units = {});

  /// [T, H, v]; T from q. NaN where nothing was written.
  std::vector<float> Run(const LayerFold& fold, const std::vector<float>& q,
                         const std::vector<AttentionItem>& items, DecodeMode mode,
                         int64_t split_chunk = 0);

  PathStats stats;
  bool deterministic = false;

 private:
  MlaGeometry geometry_;
  OpHarness harness_;
  AttentionWorkspace workspace_;
};

struct CaseOptions {
  Elem type = Elem::kF32;
  int64_t split_chunk = 0;
  int64_t first_position = 0;
  int threads = 2;
  const KernelTable* kernels = &FastKernels();
  LatentUnits units{};
};

/// The whole case by one way.
std::vector<float> RunCase(const AttentionCase& c, const Way& way,
                           const CaseOptions& options = CaseOptions());

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_ATTENTION_CASE_H_
