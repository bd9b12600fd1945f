// Sizes for people.
// Called by: inspect, footprint, bench. Thread-safety: stateless.
#ifndef MLA_CLI_UNITS_H_
#define MLA_CLI_UNITS_H_

#include <cstdint>
#include <string>

namespace mla {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
inline constexpr int64_t kMaxBudgetGiB = 1 << 20;

/// "1152 B", "108.0 MiB": binary units, and the unit says so.
std::string FormatBytes(int64_t bytes);

/// GiB to bytes, rounded down.
int64_t BytesFromGib(double gib);

}  // namespace mla

#endif  // MLA_CLI_UNITS_H_
