// Products of fp32 activations with stored weights: a linear layer (nt) and the fold of a query
// into the latent space (nn).
#include "kernel_bench.h"
#include "kernels/isa.h"

namespace mla {
namespace {

struct Shape {
  int64_t m, n, k;
};
// One row, few, and prefill, of DeepSeek-V2-Lite's layers.
constexpr Shape kLinear[] = {{1, 2048, 2048},   {8, 2048, 2048},  {64, 2048, 2048},
                             {512, 2048, 2048}, {512, 512, 2816}, {512, 2816, 512}};
// q_lat = w_ukᵀ q_nope of one head, and many rows of it.
constexpr Shape kFold[] = {{1, 512, 128}, {8, 512, 128}, {128, 512, 128}};

void BenchMatmul(benchmark::State& state, const std::string& isa, bool transposed, Elem type,
                 const Shape& shape) {
  ForceIsaByName(isa);
  const FloatBuffer a = RandomFloats(shape.m * shape.k, 1, 1);
  const Buffer b = RandomElems(shape.n * shape.k, type, 0.02, 2);
  const FloatBuffer c(shape.m * shape.n);
  const FloatBuffer scratch(MatmulScratchFloats(shape.k));
  MatmulArgs args;
  args.a = a.data();
  args.a_stride = shape.k;
  args.b = b.data();
  args.b_stride = transposed ? shape.k : shape.n;
  args.b_type = type;
  args.c = c.data();
  args.c_stride = shape.n;
  args.m = shape.m;
  args.n = shape.n;
  args.k = shape.k;
  if (transposed) {
    args.scratch = scratch.data();
    args.scratch_floats = scratch.size();
  }
  for (auto _ : state) {
    transposed ? MatmulNt(args) : MatmulNn(args);
    benchmark::DoNotOptimize(c.data());
    benchmark::ClobberMemory();
  }
  SetRates(state, 2.0 * static_cast<double>(shape.m * shape.n * shape.k),
           static_cast<double>(shape.n * shape.k * ElemSize(type)));
}

void Register(const std::string& isa, bool transposed, Elem type, const Shape& shape) {
  const std::string name = std::string(transposed ? "matmul_nt/" : "matmul_nn/") + ElemName(type) +
                           "/m:" + std::to_string(shape.m) + "/n:" + std::to_string(shape.n) +
                           "/k:" + std::to_string(shape.k) + "/" + isa;
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    BenchMatmul(state, isa, transposed, type, shape);
  });
}

}  // namespace

void RegisterMatmulBench(const std::string& isa) {
  for (const Elem type : {Elem::kBf16, Elem::kF32}) {
    for (const Shape& shape : kLinear) Register(isa, true, type, shape);
    for (const Shape& shape : kFold) Register(isa, false, type, shape);
  }
}

}  // namespace mla
