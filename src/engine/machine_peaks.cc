#include "engine/machine_peaks.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "kernels/isa.h"
#include "kernels/peak.h"
#include "tensor/buffer.h"

namespace mla {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The best rate of eight passes, or fewer if they would take longer than `most_seconds` (slow
// memory, instrumented builds). pass() returns how much it did.
template <typename Pass>
double BestRate(double most_seconds, Pass pass) {
  constexpr int kPasses = 8;
  double best = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < kPasses && (i == 0 || SecondsSince(begin) < most_seconds); ++i) {
    const auto start = Clock::now();
    const double done = pass();
    best = std::max(best, done / SecondsSince(start));
  }
  return best;
}

// Puts the chosen ISA back, whatever happens.
class IsaKeeper {
 public:
  IsaKeeper() : chosen_(ChosenIsa()) {}
  ~IsaKeeper() { ForceIsaByName(chosen_); }
  IsaKeeper(const IsaKeeper&) = delete;
  IsaKeeper& operator=(const IsaKeeper&) = delete;

 private:
  std::string chosen_;
};

double MeasureRead(ThreadPool& pool, int64_t bytes) {
  // Small enough tasks that a thread which starts late or is interrupted leaves them to others.
  constexpr int64_t kTaskFloats = (4 << 20) / 4;
  const int64_t tasks = std::max<int64_t>(1, bytes / 4 / kTaskFloats);
  const FloatBuffer data(tasks * kTaskFloats);
  // Written, since untouched pages are all one page of zeros.
  pool.Run(tasks, [&](int64_t task, int) {
    std::fill_n(data.data() + task * kTaskFloats, kTaskFloats, 1.0f);
  });
  std::atomic<float> sink{0};
  return BestRate(0.5, [&] {
    pool.Run(tasks, [&](int64_t task, int) {
      sink.store(ReadLoop(data.data() + task * kTaskFloats, kTaskFloats),
                 std::memory_order_relaxed);
    });
    return static_cast<double>(data.size() * 4);
  });
}

double MeasureFma(ThreadPool& pool) {
  constexpr int64_t kRounds = 10000;  // tens of microseconds
  const int64_t tasks = 32 * pool.threads();
  std::atomic<float> sink{0};
  return BestRate(0.1, [&] {
    std::atomic<int64_t> flop{0};
    pool.Run(tasks, [&](int64_t, int) {
      float value = 0;
      flop.fetch_add(FmaPeakLoop(kRounds, &value), std::memory_order_relaxed);
      sink.store(value, std::memory_order_relaxed);
    });
    return static_cast<double>(flop.load());
  });
}

}  // namespace

int64_t ReadBufferBytes(int64_t available) {
  constexpr int64_t kMib = int64_t{1} << 20;
  int64_t cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  cache = std::max<int64_t>(0, sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
  const int64_t wanted = std::min(std::max(512 * kMib, 2 * cache), 2048 * kMib);
  return std::max(4 * kMib, std::min(wanted, available / 4));
}

BenchPeaks MeasurePeaks(ThreadPool& pool, int64_t read_bytes) {
  BenchPeaks peaks;
  peaks.read_gbps = MeasureRead(pool, read_bytes) / 1e9;
  const IsaKeeper keeper;
  for (const Isa& isa : CompiledIsas()) {
    if (!isa.detected) continue;
    ForceIsaByName(isa.name);
    peaks.tflops[isa.name] = MeasureFma(pool) / 1e12;
  }
  return peaks;
}

}  // namespace mla
