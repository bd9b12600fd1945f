#include "parallel/thread_pool.h"

#include <system_error>

#include "base/check.h"

namespace mla {
namespace {

constexpr uint64_t kOpen = 1ull << 31;
constexpr uint64_t kCountMask = kOpen - 1;
constexpr uint64_t kGeneration = 1ull << 32;
// About 50 us: longer than the serial work between two ops, far shorter than a scheduler tick.
constexpr int kSpins = 2000;

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) Fail(ErrorCode::kUsage, "threads is {}; expected 1 or more", threads);
  try {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this, i] { WorkerLoop(i); });
    }
  } catch (const std::system_error& e) {
    stop_.store(true);
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
    const int started = static_cast<int>(workers_.size());
    for (std::thread& t : workers_) t.join();
    Fail(ErrorCode::kResource, "thread {} of {} cannot be started ({}); use a smaller --threads",
         started + 1, threads, e.what());
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  { std::lock_guard<std::mutex> lock(mutex_); }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::RunErased(int64_t tasks, Invoke invoke, void* fn) {
  if (tasks <= 0) return;
  if (tasks == 1 || workers_.empty()) {
    for (int64_t i = 0; i < tasks; ++i) invoke(fn, i, 0);
    return;
  }
  invoke_ = invoke;
  fn_ = fn;
  tasks_ = tasks;
  next_.store(0, std::memory_order_relaxed);
  const uint64_t generation =
      (state_.load(std::memory_order_relaxed) & ~(kGeneration - 1)) + kGeneration;
  state_.store(generation | kOpen, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst) > 0) {
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_.notify_all();
  }
  Work(0);
  uint64_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  for (int spin = 0; (state & kCountMask) != 0; ++spin) {
    if (spin < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
    state = state_.load(std::memory_order_acquire);
  }
}

void ThreadPool::Work(int thread) {
  while (true) {
    const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks_) return;
    invoke_(fn_, task, thread);
  }
}

// Returns a state that is open and of another generation than `seen`, or any state once stopping.
uint64_t ThreadPool::AwaitRegion(uint64_t seen) {
  const auto is_new = [&](uint64_t s) {
    return (s & kOpen) != 0 && (s & ~(kGeneration - 1)) != (seen & ~(kGeneration - 1));
  };
  for (int spin = 0; spin < kSpins; ++spin) {
    const uint64_t s = state_.load(std::memory_order_acquire);
    if (is_new(s) || stop_.load(std::memory_order_relaxed)) return s;
    Pause();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  parked_.fetch_add(1, std::memory_order_seq_cst);
  uint64_t s = 0;
  wake_.wait(lock, [&] {
    s = state_.load(std::memory_order_seq_cst);
    return is_new(s) || stop_.load(std::memory_order_relaxed);
  });
  parked_.fetch_sub(1, std::memory_order_relaxed);
  return s;
}

void ThreadPool::WorkerLoop(int thread) {
  uint64_t seen = 0;
  while (true) {
    uint64_t s = AwaitRegion(seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    bool inside = false;
    while ((s & kOpen) != 0 && !inside) {
      inside = state_.compare_exchange_weak(s, s + 1, std::memory_order_acq_rel,
                                            std::memory_order_acquire);
    }
    seen = s;
    if (!inside) continue;
    Work(thread);
    state_.fetch_sub(1, std::memory_order_acq_rel);
  }
}

}  // namespace mla
