// Loads a model, feeds a prompt, samples and streams: the whole library in one page.
// Usage: hello MODEL_DIR [PROMPT]
#include <mla/engine.h>

#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODEL_DIR [PROMPT]\n", argv[0]);
    return 2;
  }
  const std::string prompt = argc > 2 ? argv[2] : "Once upon a time";
  try {
    const mla::Model model = mla::Model::Load(argv[1]);

    mla::SessionOptions options;
    options.attention = mla::Attention::kAbsorbed;  // the cache holds latents
    options.context = 256;
    mla::Session session(model, options);
    session.Feed(model.Encode(prompt));

    std::fputs(prompt.c_str(), stdout);
    mla::TextStream stream = model.Stream();
    const mla::SamplingOptions sampling = model.default_sampling();
    for (int i = 0; i < 48; ++i) {
      const int32_t token = session.Sample(sampling);
      if (model.IsEndOfText(token)) break;
      std::fputs(stream.Push(token).c_str(), stdout);
      std::fflush(stdout);
      session.Feed(std::vector<int32_t>{token});
    }
    std::puts(stream.Flush().c_str());

    const mla::SessionStats stats = session.stats();
    std::fprintf(stderr, "%lld tokens, %lld bytes of cache, paths=%s\n",
                 static_cast<long long>(stats.cache_tokens),
                 static_cast<long long>(stats.cache_bytes), mla::FormatPaths(stats.paths).c_str());
  } catch (const mla::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return mla::ExitStatus(error.code());
  }
  return 0;
}
