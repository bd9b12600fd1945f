#include <cstdio>

#include "kernel_bench.h"
#include "kernels/isa.h"
#include "mla/error.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    for (const mla::Isa& isa : mla::CompiledIsas()) {
      if (!isa.detected) continue;
      mla::ForceIsaByName(isa.name);
      mla::RegisterLatentBench(isa.name);
      mla::RegisterMatmulBench(isa.name);
      mla::RegisterPrefillBench(isa.name);
    }
    benchmark::RunSpecifiedBenchmarks();
  } catch (const mla::Error& e) {
    std::fprintf(stderr, "kernel_bench: error: %s\n", e.what());
    return 1;
  }
  benchmark::Shutdown();
  return 0;
}
