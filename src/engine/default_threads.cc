#include "mla/tools.h"
#include "parallel/topology.h"

namespace mla {

int DefaultThreads() { return DetectTopology().default_threads; }

}  // namespace mla
