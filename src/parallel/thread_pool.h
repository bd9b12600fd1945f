// A fixed set of threads that share the tasks of one parallel region at a time.
// Called by: ops, attention, layers (one region per op). Owned by the engine or a bench.
// Thread-safety: Run may be called from one thread at a time; regions do not nest.
#ifndef MLA_PARALLEL_THREAD_POOL_H_
#define MLA_PARALLEL_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace mla {

/// Workers spin briefly after a region (the next op of a layer follows within microseconds), then
/// park. The caller works too and never waits for a worker that has not taken a task, so a worker
/// that the system does not schedule delays nothing.
class ThreadPool {
 public:
  /// `threads` >= 1, the caller included. Throws kResource if a thread cannot be started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls fn(task, thread) once for each task in [0, tasks); thread in [0, threads()) is
  /// exclusive while the call runs. Returns when all are done. fn must not throw.
  template <typename Fn>
  void Run(int64_t tasks, Fn&& fn) {
    using Decayed = std::remove_reference_t<Fn>;
    RunErased(
        tasks, [](void* f, int64_t task, int thread) { (*static_cast<Decayed*>(f))(task, thread); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }

  /// Calls fn(thread) once in each thread of the pool, the caller as 0, all at the same time. It
  /// waits until the system has scheduled every worker: for set-up and checks of the threads
  /// themselves, not for work. fn must not throw.
  template <typename Fn>
  void RunOnEachThread(Fn&& fn) {
    std::atomic<int> arrived{0};
    // As many tasks as threads, and whoever has one stays until all are taken: one for each.
    Run(threads(), [&](int64_t, int thread) {
      arrived.fetch_add(1, std::memory_order_relaxed);
      while (arrived.load(std::memory_order_relaxed) < threads()) std::this_thread::yield();
      fn(thread);
    });
  }

 private:
  using Invoke = void (*)(void*, int64_t, int);

  void RunErased(int64_t tasks, Invoke invoke, void* fn);
  void Work(int thread);
  void WorkerLoop(int thread);
  uint64_t AwaitRegion(uint64_t seen);

  // The region. Written by the caller before `state_` opens it.
  Invoke invoke_ = nullptr;
  void* fn_ = nullptr;
  int64_t tasks_ = 0;
  std::atomic<int64_t> next_{0};

  // Generation (upper 32 bits), open flag, number of workers inside (lower 31 bits). A worker
  // enters by incrementing the count while the flag is set; the caller clears the flag when no
  // task is left and waits for the count to reach zero.
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<int> parked_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace mla

#endif  // MLA_PARALLEL_THREAD_POOL_H_
