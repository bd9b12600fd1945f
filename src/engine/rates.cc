#include "engine/rates.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>

#include "kernels/isa.h"
#include "kernels/peak.h"

namespace mla {
namespace {

using Clock = std::chrono::steady_clock;

// Small enough pieces that a thread which starts late or is interrupted leaves them to others.
constexpr int64_t kPieceFloats = (4 << 20) / 4;
constexpr double kTaskSeconds = 1e-4;
constexpr int64_t kTasksPerThread = 16;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What pass() says it did, per second.
template <typename Pass>
double RateOf(Pass pass) {
  const auto start = Clock::now();
  const double done = pass();
  return done / SecondsSince(start);
}

// Seconds that the calling thread has run on a processor.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Rounds of the unit's loop that take about kTaskSeconds.
int64_t RoundsOfATask(DotUnit unit) {
  int64_t rounds = 64;
  double seconds = 0;
  while (true) {
    const double start = ThreadSeconds();
    PeakLoop(unit, rounds);
    seconds = ThreadSeconds() - start;
    if (seconds >= kTaskSeconds / 2) break;
    rounds *= 4;
  }
  return std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(rounds) * kTaskSeconds / seconds));
}

// task(i) for all i, by one thread or all of the pool.
template <typename Task>
void RunTasks(ThreadPool& pool, Threads threads, int64_t tasks, Task task) {
  if (threads == Threads::kAll) {
    pool.Run(tasks, [&](int64_t i, int) { task(i); });
  } else {
    for (int64_t i = 0; i < tasks; ++i) task(i);
  }
}

// Operations per second of the calling thread while it ran: the median of a pass's tasks, since
// other work on the machine disturbs some of them, and a clock that jumps flatters some.
double RateHere(DotUnit unit, int64_t rounds) {
  std::vector<double> rates;
  for (int64_t i = 0; i < kTasksPerThread; ++i) {
    const double start = ThreadSeconds();
    const auto done = static_cast<double>(PeakLoop(unit, rounds));
    rates.push_back(done / std::max(ThreadSeconds() - start, 1e-9));
  }
  std::nth_element(rates.begin(), rates.begin() + kTasksPerThread / 2, rates.end());
  return rates[kTasksPerThread / 2];
}

// One pass of all threads; returns the operations done.
double RunUnit(ThreadPool& pool, DotUnit unit, int64_t rounds) {
  std::atomic<int64_t> done{0};
  RunTasks(pool, Threads::kAll, kTasksPerThread * pool.threads(),
           [&](int64_t) { done.fetch_add(PeakLoop(unit, rounds), std::memory_order_relaxed); });
  return static_cast<double>(done.load());
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

}  // namespace

ReadBuffer::ReadBuffer(ThreadPool& pool, int64_t bytes)
    : data_(std::max<int64_t>(1, bytes / 4 / kPieceFloats) * kPieceFloats) {
  // Written, since untouched pages are all one page of zeros.
  pool.Run(data_.size() / kPieceFloats, [&](int64_t piece, int) {
    std::fill_n(data_.data() + piece * kPieceFloats, kPieceFloats, 1.0f);
  });
}

double ReadBuffer::Rate(ThreadPool& pool, Threads threads, double seconds) const {
  double best = 0;
  const auto begin = Clock::now();
  do {
    best = std::max(best, RateOf([&] {
                      Read(pool, threads);
                      return static_cast<double>(bytes());
                    }));
  } while (SecondsSince(begin) < seconds);
  return best;
}

void ReadBuffer::Read(ThreadPool& pool, Threads threads) const {
  std::atomic<float> sink{0};
  RunTasks(pool, threads, data_.size() / kPieceFloats, [&](int64_t piece) {
    sink.store(ReadLoop(data_.data() + piece * kPieceFloats, kPieceFloats),
               std::memory_order_relaxed);
  });
}

std::vector<UnitRate> UnitRates(ThreadPool& pool, std::span<const DotUnit> units, double seconds) {
  std::vector<UnitRate> best(units.size());
  std::vector<int64_t> rounds;
  for (DotUnit unit : units) rounds.push_back(RoundsOfATask(unit));
  const auto begin = Clock::now();
  for (int turn = 0; turn < 2 || SecondsSince(begin) < seconds; ++turn) {
    for (size_t i = 0; i < units.size(); ++i) {
      best[i].one = std::max(best[i].one, RateHere(units[i], rounds[i]));
      best[i].all =
          std::max(best[i].all, RateOf([&] { return RunUnit(pool, units[i], rounds[i]); }));
    }
  }
  return best;
}

std::vector<IsaRate> IsaRates(ThreadPool& pool, double seconds) {
  constexpr DotUnit kUnits[] = {DotUnit::kFma};
  std::vector<IsaRate> rates;
  const IsaKeeper keeper;
  for (const Isa& isa : CompiledIsas()) {
    if (!isa.detected) continue;
    ForceIsaByName(isa.name);
    rates.push_back({isa.name, UnitRates(pool, kUnits, seconds)[0]});
  }
  return rates;
}

}  // namespace mla
