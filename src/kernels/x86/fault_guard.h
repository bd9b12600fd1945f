// Runs a function that may meet an illegal instruction, and survives it.
// Called by: dot_units (tries). Thread-safety: safe; guarded calls run one at a time per process.
#ifndef MLA_KERNELS_X86_FAULT_GUARD_H_
#define MLA_KERNELS_X86_FAULT_GUARD_H_

namespace mla {

/// Calls fn(argument) in the calling thread. Returns 0, or the signal that ended it: SIGILL, or
/// SIGSEGV, which is how the system reports a refused tile configuration. fn is left in the middle
/// then, so it may hold nothing that needs a destructor. Handlers are installed only meanwhile;
/// a signal of another thread goes to the handler that was there before.
int RunGuarded(void (*fn)(void*), void* argument) noexcept;

}  // namespace mla

#endif  // MLA_KERNELS_X86_FAULT_GUARD_H_
