// The attention cache of one sequence: latent rows, or decompressed K and V per head.
// Called by: layers (append), attention (read), engine (trim, sizes). Thread-safety: one owner;
// rows may be read and distinct rows written by the threads of one region.
#ifndef MLA_ATTENTION_KV_CACHE_H_
#define MLA_ATTENTION_KV_CACHE_H_

#include <cstdint>
#include <deque>

#include "attention/geometry.h"
#include "kernels/attend.h"
#include "kernels/elem.h"
#include "kernels/kernel_table.h"
#include "kernels/latent_unit.h"
#include "tensor/buffer.h"

namespace mla {

enum class CacheLayout { kLatent, kDecompressed };

/// Element type of the rotated parts of a cache of `type`. Beside bf16 and int8 it is fp16: as many
/// bytes, eight times finer, and scores are most sensitive there (docs/decisions).
constexpr Elem RopeElem(Elem type) noexcept {
  return type == Elem::kBf16 || type == Elem::kInt8 ? Elem::kF16 : type;
}

/// How the latent rows of a cache lie in memory, with the unit among `units` for them.
LatentFormat LatentRowFormat(const MlaGeometry& geometry, Elem type, const LatentUnits& units);

/// Positions are absolute: offset() is the position of the next token and the one RoPE uses;
/// live_start() is the first position still cached. Layout and element type never change.
///
/// Storage comes in segments of kSegmentTokens positions for all layers, allocated when the first
/// of their tokens arrives and released when the last is trimmed. Within a segment and layer:
/// latent [256, Rk + r], c_kv and k_rope side by side (Elem::kInt8: kernels/latent_int8.h);
/// decompressed K [H, 256, n + r], V [H, 256, v].
class KvCache {
 public:
  static constexpr int64_t kSegmentTokens = 256;
  static_assert(kSegmentTokens % kAttendTileRows == 0, "a tile must not straddle segments");

  /// `capacity`: most live tokens. `first_position`: where an empty cache starts.
  /// Throws kUsage for a capacity below 1 and for a decompressed int8 cache.
  KvCache(const MlaGeometry& geometry, int64_t layers, CacheLayout layout, Elem type,
          int64_t capacity, int64_t first_position = 0);

  int64_t offset() const { return offset_; }
  int64_t live_start() const { return live_start_; }
  int64_t live() const { return offset_ - live_start_; }
  int64_t capacity() const { return capacity_; }
  CacheLayout layout() const { return layout_; }
  Elem type() const { return type_; }
  Elem rope_type() const { return RopeElem(type_); }
  /// Of LatentRow's rows.
  LatentFormat latent_format(const LatentUnits& units) const {
    return LatentRowFormat(geometry_, type_, units);
  }
  bool can_trim() const { return live() > 0; }

  /// All layers, one token.
  int64_t bytes_per_token() const;
  /// Bytes of the live rows.
  int64_t nbytes() const { return live() * bytes_per_token(); }
  /// Bytes of the segments held; at most kSegmentTokens rows at each end above nbytes().
  int64_t allocated_bytes() const;

  /// Makes room for `count` more tokens and advances the offset; their rows are undefined until
  /// written. Throws kContextFull (nothing changes) if they do not fit, kResource without memory.
  void Extend(int64_t count);
  /// Drops the newest / oldest `count` tokens, at most all. Returns how many. The offset goes back
  /// / stays.
  int64_t Trim(int64_t count);
  int64_t TrimFront(int64_t count);
  /// Empty, at position `first_position`.
  void Reset(int64_t first_position = 0);

  /// Writes the row of one position. `latent` [Rk + r]: c_kv, then k_rope.
  void StoreLatent(const KernelTable& kernels, int64_t layer, int64_t position,
                   const float* latent) const;
  /// k_nope [n], k_rope [r], v [v] of one head.
  void StoreHead(const KernelTable& kernels, int64_t layer, int64_t head, int64_t position,
                 const float* k_nope, const float* k_rope, const float* v) const;
  /// Reads `rows` rows from `position` on, which share a segment, as fp32: [rows, Rk + r], [rows,
  /// n + r] or [rows, v].
  void LoadLatent(const KernelTable& kernels, int64_t layer, int64_t position, int64_t rows,
                  float* out) const;
  void LoadKeys(const KernelTable& kernels, int64_t layer, int64_t head, int64_t position,
                int64_t rows, float* out) const;
  void LoadValues(const KernelTable& kernels, int64_t layer, int64_t head, int64_t position,
                  int64_t rows, float* out) const;

  /// Row pointers; position in [live_start, offset). Rows of one segment are contiguous:
  /// strides Rk + r (latent_format().row_bytes), n + r and v.
  void* LatentRow(int64_t layer, int64_t position) const;
  void* KeyRow(int64_t layer, int64_t head, int64_t position) const;
  void* ValueRow(int64_t layer, int64_t head, int64_t position) const;

 private:
  char* LayerBase(int64_t layer, int64_t position) const;
  void ReleaseUnused();
  // [rows, width + r] with the last r of each row in rope_type().
  void LoadRotated(const KernelTable& kernels, const void* data, int64_t rows, int64_t width,
                   float* out) const;

  MlaGeometry geometry_;
  int64_t layers_;
  CacheLayout layout_;
  Elem type_;
  int64_t capacity_;
  int64_t offset_;
  int64_t live_start_;
  int64_t layer_bytes_;        // of one segment
  int64_t first_segment_ = 0;  // position / kSegmentTokens of segments_[0]
  std::deque<Buffer> segments_;
};

}  // namespace mla

#endif  // MLA_ATTENTION_KV_CACHE_H_
