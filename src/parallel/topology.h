// How many threads this process may and should run, and the caches and name of the processor.
// Called by: engine, cli (--version), tests. Thread-safety: reads the system; stateless.
#ifndef MLA_PARALLEL_TOPOLOGY_H_
#define MLA_PARALLEL_TOPOLOGY_H_

#include <cstdint>
#include <string>

namespace mla {

struct Topology {
  int affinity = 1;         ///< logical CPUs that the process may run on
  int physical = 1;         ///< distinct cores among them
  double quota = 0;         ///< CPUs of the cgroup's quota; 0: none
  int default_threads = 1;  ///< min(affinity, floor(quota), physical), at least 1
};

/// Reads affinity, SMT siblings and the cgroup (v2 and v1) quota. `root` replaces "/" in tests.
Topology DetectTopology(const std::string& root = "");

/// The smallest CPU quota on the path of `cgroup` (e.g. "/a/b") under a cgroup-v2 mount, in CPUs;
/// 0 if there is none. Exposed for tests.
double CgroupQuota(const std::string& root);

/// Data caches that a core sees, bytes; a shared one counts in full. 0: there is none, or the
/// system does not say.
struct CacheSizes {
  int64_t l1d = 0;
  int64_t l2 = 0;
  int64_t l3 = 0;
};

/// Of the first CPU that the process may run on: sysfs, else sysconf. `root` replaces "/" in tests
/// and leaves sysconf out.
CacheSizes DetectCaches(const std::string& root = "");

/// The processor's name from /proc/cpuinfo; where that has none (Arm), its implementer and part
/// numbers; else "unknown".
std::string CpuModel(const std::string& root = "");

}  // namespace mla

#endif  // MLA_PARALLEL_TOPOLOGY_H_
