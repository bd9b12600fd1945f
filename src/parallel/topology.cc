#include "parallel/topology.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include <fmt/core.h>

namespace mla {
namespace {

std::string ReadLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// "max 100000" or "200000 100000" (cgroup v2 cpu.max). 0: no limit or no such file.
double ParseCpuMax(const std::string& line) {
  std::istringstream in(line);
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return 0;
  char* end = nullptr;
  const double q = std::strtod(quota.c_str(), &end);
  return end != quota.c_str() && q > 0 ? q / period : 0;
}

double Smaller(double a, double b) { return a <= 0 ? b : b <= 0 ? a : std::min(a, b); }

// Cgroup paths of this process: `v2` from the line "0::PATH", `v1` from the cpu controller's line.
void OwnCgroups(const std::string& root, std::string* v2, std::string* v1) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) *v2 = path;
    if (("," + controllers + ",").find(",cpu,") != std::string::npos) *v1 = path;
  }
}

// Visits `path` and each of its parents up to "".
template <typename Visit>
void ForEachParent(std::string path, Visit visit) {
  while (true) {
    if (path == "/") path.clear();
    visit(path);
    if (path.empty()) return;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

int PhysicalCores(const cpu_set_t& set, const std::string& root) {
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    const std::string base = fmt::format("{}/sys/devices/system/cpu/cpu{}/topology/", root, cpu);
    const std::string siblings = ReadLine(base + "thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return std::max<int>(1, static_cast<int>(cores.size()));
}

int FirstCpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) return cpu;
    }
  }
  return 0;
}

// "48K", "2048K", "260M" (sysfs). 0 if it is not like that.
int64_t ParseCacheSize(const std::string& text) {
  char* end = nullptr;
  const long long n = std::strtoll(text.c_str(), &end, 10);
  const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  return n > 0 && n < (1ll << 32) ? static_cast<int64_t>(n) << shift : 0;
}

int64_t CacheFromSysconf([[maybe_unused]] int level) {
#ifdef _SC_LEVEL1_DCACHE_SIZE
  const int name = level == 1   ? _SC_LEVEL1_DCACHE_SIZE
                   : level == 2 ? _SC_LEVEL2_CACHE_SIZE
                                : _SC_LEVEL3_CACHE_SIZE;
  return std::max<int64_t>(0, sysconf(name));
#else
  return 0;
#endif
}

}  // namespace

double CgroupQuota(const std::string& root) {
  std::string v2;
  std::string v1;
  OwnCgroups(root, &v2, &v1);
  double quota = 0;
  ForEachParent(v2, [&](const std::string& path) {
    quota = Smaller(quota, ParseCpuMax(ReadLine(root + "/sys/fs/cgroup" + path + "/cpu.max")));
  });
  ForEachParent(v1, [&](const std::string& path) {
    for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
      const std::string dir = root + mount + path;
      const double limit = std::atof(ReadLine(dir + "/cpu.cfs_quota_us").c_str());
      const double period = std::atof(ReadLine(dir + "/cpu.cfs_period_us").c_str());
      if (limit > 0 && period > 0) quota = Smaller(quota, limit / period);
    }
  });
  return quota;
}

Topology DetectTopology(const std::string& root) {
  Topology t;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    t.affinity = std::max(1, CPU_COUNT(&set));
    t.physical = PhysicalCores(set, root);
  } else {
    t.affinity = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    t.physical = t.affinity;
  }
  t.quota = CgroupQuota(root);
  t.default_threads = std::min(t.affinity, t.physical);
  if (t.quota > 0) {
    t.default_threads = std::min(t.default_threads, static_cast<int>(std::floor(t.quota)));
  }
  t.default_threads = std::max(1, t.default_threads);
  return t;
}

CacheSizes DetectCaches(const std::string& root) {
  CacheSizes sizes;
  int64_t* const by_level[] = {&sizes.l1d, &sizes.l2, &sizes.l3};
  const std::string cpu = fmt::format("{}/sys/devices/system/cpu/cpu{}/cache/", root, FirstCpu());
  for (int i = 0; i < 16; ++i) {
    const std::string index = fmt::format("{}index{}/", cpu, i);
    const int level = std::atoi(ReadLine(index + "level").c_str());
    if (level < 1 || level > 3 || ReadLine(index + "type") == "Instruction") continue;
    int64_t& size = *by_level[level - 1];
    size = std::max(size, ParseCacheSize(ReadLine(index + "size")));
  }
  for (int level = 1; level <= 3 && root.empty(); ++level) {
    int64_t& size = *by_level[level - 1];
    if (size == 0) size = CacheFromSysconf(level);
  }
  return sizes;
}

std::string CpuModel(const std::string& root) {
  std::ifstream in(root + "/proc/cpuinfo");
  std::map<std::string, std::string> first;  // value of the first line with that name
  std::string line;
  while (std::getline(in, line) && first.size() < 64) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const size_t name_end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (name_end == std::string::npos || begin == std::string::npos) continue;
    first.emplace(line.substr(0, name_end + 1), line.substr(begin));
  }
  if (first.count("model name") != 0) return first["model name"];
  if (first.count("CPU part") != 0) {
    return fmt::format("implementer {} part {}", first["CPU implementer"], first["CPU part"]);
  }
  return "unknown";
}

}  // namespace mla
