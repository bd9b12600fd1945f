#include "cli/units.h"

#include <fmt/core.h>

namespace mla {

std::string FormatBytes(int64_t bytes) {
  constexpr int64_t kExactBelow = 10 * 1024;  // small sizes are compared by eye, so show all digits
  if (bytes < kExactBelow) return fmt::format("{} B", bytes);
  const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

int64_t BytesFromGib(double gib) { return static_cast<int64_t>(gib * kGiB); }

}  // namespace mla
