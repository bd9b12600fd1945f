// What this machine reaches: memory read bandwidth and fp32 multiply-adds per instruction set.
// Called by: engine (attention bench). Thread-safety: one call at a time, while no kernel runs (it
// forces instruction sets and puts the chosen one back).
#ifndef MLA_ENGINE_MACHINE_PEAKS_H_
#define MLA_ENGINE_MACHINE_PEAKS_H_

#include <cstdint>

#include "mla/bench.h"
#include "parallel/thread_pool.h"

namespace mla {

/// Bytes of the buffer that the read bandwidth is measured over: at least 512 MiB and twice the
/// last-level cache, at most 2 GiB and a quarter of the `available` bytes.
int64_t ReadBufferBytes(int64_t available);

/// Measures with all threads of the pool, the best of several passes: reads of a buffer of
/// `read_bytes` on the chosen ISA, multiply-adds on each ISA that the machine has.
BenchPeaks MeasurePeaks(ThreadPool& pool, int64_t read_bytes);

}  // namespace mla

#endif  // MLA_ENGINE_MACHINE_PEAKS_H_
