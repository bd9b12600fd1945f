// What the kernel benchmarks share. Each file registers its benchmarks once per instruction set of
// this machine; names end with it, so that --benchmark_filter selects.
// Called by: bench/kernels only. Thread-safety: one thread; the kernels know no others.
#ifndef MLA_BENCH_KERNELS_KERNEL_BENCH_H_
#define MLA_BENCH_KERNELS_KERNEL_BENCH_H_

#include <cstdint>
#include <string>

#include <benchmark/benchmark.h>

#include "kernels/elem.h"
#include "kernels/kernel_table.h"
#include "support/random.h"
#include "tensor/buffer.h"

namespace mla {

/// `isa`: one of CompiledIsas() that is detected; it is chosen while this is called.
void RegisterLatentBench(const std::string& isa);
void RegisterMatmulBench(const std::string& isa);
void RegisterPrefillBench(const std::string& isa);

inline const char* ElemName(Elem type) {
  return type == Elem::kF32    ? "f32"
         : type == Elem::kF16  ? "f16"
         : type == Elem::kBf16 ? "bf16"
                               : "int8";
}

/// 1e9 operations and, if not 0, 1e9 bytes per second of CPU time: what else runs on the machine
/// counts only as far as it takes caches and bandwidth.
inline void SetRates(benchmark::State& state, double operations, double bytes) {
  using benchmark::Counter;
  state.counters["GFLOP"] = Counter(operations / 1e9, Counter::kIsIterationInvariantRate);
  if (bytes > 0) state.counters["GB"] = Counter(bytes / 1e9, Counter::kIsIterationInvariantRate);
}

inline FloatBuffer RandomFloats(int64_t count, double deviation, uint64_t seed) {
  Random random(seed);
  FloatBuffer values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(random.Normal() * deviation);
  return values;
}

/// Random elements of a storage type; not kInt8.
inline Buffer RandomElems(int64_t count, Elem type, double deviation, uint64_t seed) {
  const FloatBuffer values = RandomFloats(count, deviation, seed);
  Buffer elems(count * ElemSize(type));
  FastKernels().from_float(values.data(), type, elems.data(), count);
  return elems;
}

}  // namespace mla

#endif  // MLA_BENCH_KERNELS_KERNEL_BENCH_H_
