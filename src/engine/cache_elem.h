// The public cache types as storage types.
// Called by: engine. Thread-safety: stateless.
#ifndef MLA_ENGINE_CACHE_ELEM_H_
#define MLA_ENGINE_CACHE_ELEM_H_

#include "kernels/elem.h"
#include "mla/options.h"

namespace mla {

constexpr Elem CacheElem(CacheType type) noexcept {
  switch (type) {
    case CacheType::kBf16:
      break;
    case CacheType::kF16:
      return Elem::kF16;
    case CacheType::kF32:
      return Elem::kF32;
    case CacheType::kInt8:
      return Elem::kInt8;
  }
  return Elem::kBf16;
}

}  // namespace mla

#endif  // MLA_ENGINE_CACHE_ELEM_H_
