// Rates that this machine reaches: reads from a buffer, operations of a unit. The loops behind the
// peaks of the benches and the probe at start.
// Called by: engine (machine peaks, machine probe). Thread-safety: one call at a time per pool.
#ifndef MLA_ENGINE_RATES_H_
#define MLA_ENGINE_RATES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/x86/dot_units.h"
#include "parallel/thread_pool.h"
#include "tensor/buffer.h"

namespace mla {

/// kOne: the calling thread alone. kAll: all threads of the pool.
enum class Threads { kOne, kAll };

/// A buffer to read from: at least `bytes` rounded down to 4 MiB, one such piece at the least,
/// written by the threads of the pool.
class ReadBuffer {
 public:
  ReadBuffer(ThreadPool& pool, int64_t bytes);
  int64_t bytes() const { return data_.size() * 4; }

  /// Bytes per second on the chosen ISA: the best pass over the whole buffer that began within
  /// `seconds`.
  double Rate(ThreadPool& pool, Threads threads, double seconds) const;

  /// Reads all of it once, so that the caches hold nothing else.
  void Read(ThreadPool& pool, Threads threads) const;

 private:
  FloatBuffer data_;
};

struct UnitRate {
  /// Operations per second of one thread, two per multiply-add, while it ran: what a choice may go
  /// by, since other work on the machine does not count.
  double one = 0;
  double all = 0;  ///< of all threads
};

/// Rates of several units, which must be usable in all threads of the pool: for each the best of
/// its passes of 1.6 ms. The units take turns until `seconds` are over, at least twice, so that
/// other work on the machine, or a thread that the system has not moved to a core of its own yet,
/// lowers all of them or none.
std::vector<UnitRate> UnitRates(ThreadPool& pool, std::span<const DotUnit> units, double seconds);

struct IsaRate {
  std::string isa;
  UnitRate rate;
};

/// fp32 multiply-adds on each ISA that the machine has, best first, `seconds` each. Forces one
/// after the other and puts the chosen one back, so no kernel may run meanwhile.
std::vector<IsaRate> IsaRates(ThreadPool& pool, double seconds);

}  // namespace mla

#endif  // MLA_ENGINE_RATES_H_
