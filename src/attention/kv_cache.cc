#include "attention/kv_cache.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/latent_int8.h"

namespace mla {

LatentFormat LatentRowFormat(const MlaGeometry& geometry, Elem type, const LatentUnits& units) {
  LatentFormat format;
  format.type = type;
  format.rope_type = RopeElem(type);
  format.rank = geometry.kv_rank;
  format.rope = geometry.rope;
  format.row_bytes = LatentBytesPerToken(geometry, type);
  format.rope_offset =
      type == Elem::kInt8 ? Int8RopeOffset(geometry.kv_rank) : geometry.kv_rank * ElemSize(type);
  format.unit = units.For(type);
  return format;
}

KvCache::KvCache(const MlaGeometry& geometry, int64_t layers, CacheLayout layout, Elem type,
                 int64_t capacity, int64_t first_position)
    : geometry_(geometry),
      layers_(layers),
      layout_(layout),
      type_(type),
      capacity_(capacity),
      offset_(first_position),
      live_start_(first_position) {
  if (capacity < 1)
    Fail(ErrorCode::kUsage, "the context is {} tokens; expected 1 or more", capacity);
  if (type == Elem::kInt8 && layout == CacheLayout::kDecompressed) {
    Fail(ErrorCode::kUsage,
         "an int8 cache holds latent rows; expected a latent layout, found a decompressed one; use "
         "bf16, f16 or f32 with it");
  }
  Require(layers > 0 && first_position >= 0, "KvCache: layers and position");
  layer_bytes_ = bytes_per_token() / layers_ * kSegmentTokens;
}

int64_t KvCache::bytes_per_token() const {
  return layers_ * (layout_ == CacheLayout::kLatent ? LatentBytesPerToken(geometry_, type_)
                                                    : DecompressedBytesPerToken(geometry_, type_));
}

int64_t KvCache::allocated_bytes() const {
  return static_cast<int64_t>(segments_.size()) * layers_ * layer_bytes_;
}

void KvCache::Extend(int64_t count) {
  Require(count >= 0, "KvCache::Extend: negative count");
  if (count > capacity_ - live()) {
    Fail(
        ErrorCode::kContextFull,
        "{} more tokens do not fit: the context is {} tokens and {} are in use; use a larger --ctx "
        "or a shorter prompt",
        count, capacity_, live());
  }
  if (count == 0) return;
  if (segments_.empty()) first_segment_ = live_start_ / kSegmentTokens;
  const int64_t last = (offset_ + count - 1) / kSegmentTokens;
  const int64_t bytes = CheckedMul(layers_, layer_bytes_, "cache segment");
  while (first_segment_ + static_cast<int64_t>(segments_.size()) <= last) {
    segments_.emplace_back(bytes, Pages::kHuge);
  }
  offset_ += count;
}

int64_t KvCache::Trim(int64_t count) {
  count = std::clamp<int64_t>(count, 0, live());
  offset_ -= count;
  ReleaseUnused();
  return count;
}

int64_t KvCache::TrimFront(int64_t count) {
  count = std::clamp<int64_t>(count, 0, live());
  live_start_ += count;
  ReleaseUnused();
  return count;
}

void KvCache::Reset(int64_t first_position) {
  offset_ = live_start_ = first_position;
  ReleaseUnused();
}

void KvCache::ReleaseUnused() {
  if (live() == 0) {
    segments_.clear();
    return;
  }
  while (first_segment_ < live_start_ / kSegmentTokens) {
    segments_.pop_front();
    ++first_segment_;
  }
  const int64_t last = (offset_ - 1) / kSegmentTokens;
  while (first_segment_ + static_cast<int64_t>(segments_.size()) - 1 > last) segments_.pop_back();
}

char* KvCache::LayerBase(int64_t layer, int64_t position) const {
  const Buffer& segment =
      segments_[static_cast<size_t>(position / kSegmentTokens - first_segment_)];
  return segment.as<char>() + layer * layer_bytes_;
}

void KvCache::StoreLatent(const KernelTable& kernels, int64_t layer, int64_t position,
                          const float* latent) const {
  char* row = static_cast<char*>(LatentRow(layer, position));
  if (type_ == Elem::kInt8) {
    QuantizeInt8Row(latent, geometry_.kv_rank, row);
  } else {
    kernels.from_float(latent, type_, row, geometry_.kv_rank);
  }
  kernels.from_float(latent + geometry_.kv_rank, rope_type(), row + latent_format({}).rope_offset,
                     geometry_.rope);
}

void KvCache::StoreHead(const KernelTable& kernels, int64_t layer, int64_t head, int64_t position,
                        const float* k_nope, const float* k_rope, const float* v) const {
  char* key = static_cast<char*>(KeyRow(layer, head, position));
  kernels.from_float(k_nope, type_, key, geometry_.nope);
  kernels.from_float(k_rope, rope_type(), key + geometry_.nope * ElemSize(type_), geometry_.rope);
  kernels.from_float(v, type_, ValueRow(layer, head, position), geometry_.v_dim);
}

void KvCache::LoadRotated(const KernelTable& kernels, const void* data, int64_t rows, int64_t width,
                          float* out) const {
  const int64_t stride = width + geometry_.rope;
  if (rope_type() == type_) {
    kernels.to_float(data, type_, out, rows * stride);
    return;
  }
  const char* row = static_cast<const char*>(data);
  for (int64_t i = 0; i < rows; ++i, row += stride * ElemSize(type_), out += stride) {
    kernels.to_float(row, type_, out, width);
    kernels.to_float(row + width * ElemSize(type_), rope_type(), out + width, geometry_.rope);
  }
}

void KvCache::LoadLatent(const KernelTable& kernels, int64_t layer, int64_t position, int64_t rows,
                         float* out) const {
  if (type_ != Elem::kInt8) {
    LoadRotated(kernels, LatentRow(layer, position), rows, geometry_.kv_rank, out);
    return;
  }
  const LatentFormat format = latent_format({});
  const char* row = static_cast<const char*>(LatentRow(layer, position));
  for (int64_t i = 0; i < rows; ++i, row += format.row_bytes, out += geometry_.latent_dim()) {
    DequantizeInt8Row(row, geometry_.kv_rank, out);
    kernels.to_float(row + format.rope_offset, format.rope_type, out + geometry_.kv_rank,
                     geometry_.rope);
  }
}

void KvCache::LoadKeys(const KernelTable& kernels, int64_t layer, int64_t head, int64_t position,
                       int64_t rows, float* out) const {
  LoadRotated(kernels, KeyRow(layer, head, position), rows, geometry_.nope, out);
}

void KvCache::LoadValues(const KernelTable& kernels, int64_t layer, int64_t head, int64_t position,
                         int64_t rows, float* out) const {
  kernels.to_float(ValueRow(layer, head, position), type_, out, rows * geometry_.v_dim);
}

void* KvCache::LatentRow(int64_t layer, int64_t position) const {
  const int64_t row = position % kSegmentTokens;
  return LayerBase(layer, position) + row * LatentBytesPerToken(geometry_, type_);
}

void* KvCache::KeyRow(int64_t layer, int64_t head, int64_t position) const {
  const int64_t row = head * kSegmentTokens + position % kSegmentTokens;
  return LayerBase(layer, position) + row * geometry_.qk_dim() * ElemSize(type_);
}

void* KvCache::ValueRow(int64_t layer, int64_t head, int64_t position) const {
  const int64_t keys = geometry_.heads * kSegmentTokens * geometry_.qk_dim();
  const int64_t row = head * kSegmentTokens + position % kSegmentTokens;
  return LayerBase(layer, position) + (keys + row * geometry_.v_dim) * ElemSize(type_);
}

}  // namespace mla
