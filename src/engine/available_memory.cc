#include "engine/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

namespace mla {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// The number in a file, or `missing` if it holds none ("max").
int64_t ReadNumber(const std::string& path, int64_t missing) {
  std::ifstream in(path);
  int64_t value = 0;
  return in >> value ? value : missing;
}

// The number after `key` in a file of "key value" lines, or `missing`.
int64_t ReadField(const std::string& path, std::string_view key, int64_t missing) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name;
    int64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return missing;
}

struct Files {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // in memory.stat
};

// What the limits of a cgroup and its parents leave. `path` is "/a/b" below `mount`.
int64_t CgroupLeft(const std::string& mount, std::string path, const Files& files) {
  int64_t left = kUnlimited;
  while (true) {
    if (path == "/") path.clear();
    const std::string dir = mount + path + "/";
    const int64_t limit = ReadNumber(dir + files.limit, kUnlimited);
    const int64_t usage = ReadNumber(dir + files.usage, 0);
    // Cached file pages count as used, but are given back on demand.
    const int64_t cached = ReadField(dir + "memory.stat", files.reclaimable, 0);
    if (limit != kUnlimited) {
      left = std::min(left, std::max<int64_t>(0, limit - std::max<int64_t>(0, usage - cached)));
    }
    if (path.empty()) return left;
    const size_t slash = path.find_last_of('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

int64_t AvailableMemory(const std::string& root) {
  int64_t left = kUnlimited;
  const int64_t kib = ReadField(root + "/proc/meminfo", "MemAvailable:", -1);
  if (kib >= 0) left = kib * 1024;
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    // "0::/path" for v2, "4:cpu,memory:/path" for v1.
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      left = std::min(left, CgroupLeft(root + "/sys/fs/cgroup", path,
                                       {"memory.max", "memory.current", "inactive_file"}));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(left, CgroupLeft(root + "/sys/fs/cgroup/memory", path,
                                       {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                        "total_inactive_file"}));
    }
  }
  return left;
}

}  // namespace mla
