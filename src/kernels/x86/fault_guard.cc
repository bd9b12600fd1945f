#include "kernels/x86/fault_guard.h"

#include <csetjmp>
#include <csignal>
#include <mutex>

namespace mla {
namespace {

constexpr int kSignals[] = {SIGILL, SIGSEGV};
constexpr int kSignalCount = 2;

// What was installed before. Written before the handlers are, under the mutex.
struct sigaction previous[kSignalCount];

// Where the guarded call of this thread returns to; null while there is none.
thread_local sigjmp_buf* volatile return_point = nullptr;

// A signal that is not ours: what would have happened without us.
void PassOn(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = previous[signal == kSignals[0] ? 0 : 1];
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, info, context);
    return;
  }
  // The system does not let a fault be ignored, only a signal that somebody sent (si_code <= 0).
  if (before.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
    return;
  }
  struct sigaction fatal = {};
  fatal.sa_handler = SIG_DFL;
  sigaction(signal, &fatal, nullptr);
  raise(signal);  // blocked here, delivered on return
}

void OnSignal(int signal, siginfo_t* info, void* context) {
  sigjmp_buf* const target = return_point;
  // Positive: a fault of this thread. Somebody's kill() is not the function's doing.
  if (target == nullptr || info->si_code <= 0) {
    PassOn(signal, info, context);
    return;
  }
  return_point = nullptr;
  siglongjmp(*target, signal);
}

// Apart from RunGuarded: nothing here has a destructor that the jump would skip.
__attribute__((noinline)) int CallGuarded(void (*fn)(void*), void* argument) noexcept {
  sigjmp_buf here;
  const int signal = sigsetjmp(here, 1);
  if (signal != 0) return signal;
  return_point = &here;
  fn(argument);
  return_point = nullptr;
  return 0;
}

}  // namespace

int RunGuarded(void (*fn)(void*), void* argument) noexcept {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  struct sigaction ours = {};
  ours.sa_sigaction = OnSignal;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  // A fault while its signal is blocked ends the process, whatever handler there is.
  sigset_t ours_mask, mask_before;
  sigemptyset(&ours_mask);
  for (int signal : kSignals) sigaddset(&ours_mask, signal);
  pthread_sigmask(SIG_UNBLOCK, &ours_mask, &mask_before);
  for (int i = 0; i < kSignalCount; ++i) {
    // Asked for first, so that a signal right after the change finds it.
    sigaction(kSignals[i], nullptr, &previous[i]);
    sigaction(kSignals[i], &ours, nullptr);
  }
  const int signal = CallGuarded(fn, argument);
  for (int i = 0; i < kSignalCount; ++i) sigaction(kSignals[i], &previous[i], nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_before, nullptr);
  return signal;
}

}  // namespace mla
