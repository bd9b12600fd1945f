// Loops that reach what a core can do: multiply-adds from registers, reads from memory.
// Called by: engine (machine peaks). Thread-safety: pure functions on their arguments.
#ifndef MLA_KERNELS_PEAK_H_
#define MLA_KERNELS_PEAK_H_

#include <cstdint>

namespace mla {

/// Runs `rounds` rounds of independent fp32 multiply-adds on vectors of the chosen ISA and returns
/// the FLOP done, two per multiply-add and lane. `sink` receives a value that depends on all of
/// them.
int64_t FmaPeakLoop(int64_t rounds, float* sink) noexcept;

/// Reads `count` floats in order, each once, and returns a value that depends on all of them.
float ReadLoop(const float* data, int64_t count) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_PEAK_H_
