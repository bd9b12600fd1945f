#include "parallel/topology.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
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

}  // namespace mla
