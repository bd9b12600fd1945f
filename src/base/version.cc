#include "mla/version.h"

namespace mla {

const char* Version() noexcept { return MLA_VERSION; }

}  // namespace mla
