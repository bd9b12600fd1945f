#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mla/engine.h"
#include "support/expect_error.h"
#include "support/slow_isa.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

const std::string kStories = std::string(MLA_MODELS) + "/stories-mla";

const Model& Stories() {
  static const Model model = Model::Load(kStories, {.threads = 2});
  return model;
}

std::vector<int32_t> SomeTokens(int64_t count) {
  std::vector<int32_t> ids = {0};
  while (static_cast<int64_t>(ids.size()) < count) {
    ids.push_back(static_cast<int32_t>(10 + (ids.size() * 7919) % 4000));
  }
  return ids;
}

std::vector<float> LogitsAfter(const Model& model, std::span<const int32_t> ids,
                               const SessionOptions& options) {
  Session session(model, options);
  session.Feed(ids);
  return {session.logits().begin(), session.logits().end()};
}

TEST(Session, CountsPathsExactly) {
  const auto ids = SomeTokens(20);
  const struct {
    Attention attention;
    PathCounts want;  // one chunk of 20 tokens, then 3 single ones, 6 layers
  } cases[] = {{Attention::kDecompressed, {24, 0, 0, 0}},
               {Attention::kAbsorbed, {0, 6, 18, 0}},
               {Attention::kSplitKv, {0, 6, 0, 18}},
               {Attention::kAuto, {0, 6, 18, 0}}};
  for (const auto& c : cases) {
    Session session(Stories(), {.attention = c.attention});
    session.Feed(ids);
    for (int i = 0; i < 3; ++i) session.Feed(std::span(ids).first(1));
    EXPECT_EQ(FormatPaths(session.stats().paths), FormatPaths(c.want));
    session.ResetStats();
    EXPECT_EQ(FormatPaths(session.stats().paths),
              "decompressed=0,absorbed_prefill=0,absorbed_composed=0,absorbed_split_kv=0");
  }
}

TEST(Session, Deterministic) {
  // Two segments of the cache and several chunks of a split.
  const auto ids = SomeTokens(SlowIsa() ? 260 : 600);
  const Model one = Model::Load(kStories, {.threads = 1});
  const Model three = Model::Load(kStories, {.threads = 3});
  for (const Attention a :
       {Attention::kDecompressed, Attention::kAbsorbed, Attention::kSplitKv, Attention::kAuto}) {
    SessionOptions options{.attention = a, .deterministic = true};
    const auto want = LogitsAfter(one, ids, options);
    for (const int64_t chunk : {7, 64, 512}) {
      if (SlowIsa() && chunk == 64) continue;
      options.prefill_chunk = chunk;
      EXPECT_EQ(LogitsAfter(three, ids, options), want) << AttentionName(a) << " chunk " << chunk;
    }
  }
}

TEST(Session, CacheIsEightTimesSmaller) {
  const auto ids = SomeTokens(100);
  Session latent(Stories(), {.attention = Attention::kAbsorbed});
  Session full(Stories(), {.attention = Attention::kDecompressed});
  latent.Feed(ids);
  full.Feed(ids);
  EXPECT_EQ(latent.stats().cache_bytes, 100 * 6 * 80 * 2);
  EXPECT_EQ(full.stats().cache_bytes, 8 * latent.stats().cache_bytes);
}

TEST(Session, ScratchDoesNotDependOnTheContext) {
  // Less than a chunk, and several.
  const int64_t chunk = SlowIsa() ? 128 : 512;
  const int64_t few = chunk / 2;
  const int64_t many = SlowIsa() ? 400 : 2000;
  for (const Attention a :
       {Attention::kDecompressed, Attention::kAbsorbed, Attention::kSplitKv, Attention::kAuto}) {
    SessionOptions options{.attention = a, .context = 2048, .prefill_chunk = chunk};
    const auto scratch = [&](int64_t tokens) {
      Session session(Stories(), options);
      session.Feed(SomeTokens(tokens));
      session.Feed(SomeTokens(1));
      return session.stats().scratch_bytes;
    };
    const int64_t bytes = scratch(few);
    EXPECT_EQ(bytes, scratch(many));
    EXPECT_EQ(bytes, Stories().Plan(options).scratch_bytes);
    options.context = 512;
    EXPECT_EQ(bytes, Stories().Plan(options).scratch_bytes);
  }
}

TEST(Session, ThreadsDoNotChangeABit) {
  const Model one = Model::Load(kStories, {.threads = 1});
  const Model five = Model::Load(kStories, {.threads = 5});
  const auto ids = SomeTokens(SlowIsa() ? 150 : 300);
  for (const Attention a : {Attention::kDecompressed, Attention::kAbsorbed, Attention::kSplitKv}) {
    const SessionOptions options{.attention = a, .prefill_chunk = 128};
    EXPECT_EQ(LogitsAfter(one, ids, options), LogitsAfter(five, ids, options)) << AttentionName(a);
  }
}

TEST(Session, TrimThenFeedEqualsStraight) {
  const auto ids = SomeTokens(300);
  for (const Attention a : {Attention::kDecompressed, Attention::kAbsorbed}) {
    Session session(Stories(), {.attention = a});
    // The last token always alone, since one row and many may run on units that round differently:
    // then every bit must be the same.
    const auto feed_last = [&] { session.Feed(std::span(ids).last(1)); };
    session.Feed(std::span(ids).first(299));
    feed_last();
    const std::vector<float> want(session.logits().begin(), session.logits().end());
    const auto expect_same = [&] {
      EXPECT_TRUE(
          std::equal(want.begin(), want.end(), session.logits().begin(), session.logits().end()));
    };
    session.Feed(SomeTokens(40));
    EXPECT_EQ(session.Trim(15), 15);
    EXPECT_EQ(session.Trim(25), 25);
    EXPECT_EQ(session.position(), 300);
    EXPECT_TRUE(session.logits().empty());
    ExpectError(ErrorCode::kUsage, {"feed tokens first"}, [&] { session.Sample({}); });
    EXPECT_EQ(session.Trim(1), 1);
    feed_last();
    expect_same();
    EXPECT_EQ(session.Trim(1000), 300);
    session.Reset();
    session.Feed(std::span(ids).first(299));
    feed_last();
    expect_same();
  }
}

TEST(Session, TrimFrontKeepsPositions) {
  Session session(Stories(), {.attention = Attention::kAbsorbed, .context = 100});
  session.Feed(SomeTokens(100));
  const auto one = SomeTokens(1);
  ExpectError(ErrorCode::kContextFull, {"the context is 100 tokens"}, [&] { session.Feed(one); });
  EXPECT_EQ(session.TrimFront(30), 30);
  EXPECT_EQ(session.position(), 100);
  EXPECT_EQ(session.stats().cache_tokens, 70);
  session.Feed(one);
  EXPECT_EQ(session.position(), 101);
}

TEST(Session, BadTokensChangeNothing) {
  Session session(Stories(), {.attention = Attention::kAbsorbed, .context = 16});
  const std::vector<int32_t> bad = {1, 4096};
  const std::vector<int32_t> negative = {-1};
  ExpectError(ErrorCode::kBadInput, {"token 1 is id 4096; expected 0 to 4095"},
              [&] { session.Feed(bad); });
  ExpectError(ErrorCode::kBadInput, {"id -1"}, [&] { session.Feed(negative); });
  ExpectError(ErrorCode::kBadInput, {"no tokens"}, [&] { session.Feed({}); });
  ExpectError(ErrorCode::kContextFull, {"17 tokens do not fit"},
              [&] { session.Feed(SomeTokens(17)); });
  EXPECT_EQ(session.position(), 0);
  EXPECT_EQ(session.Feed(SomeTokens(16)), 16);
}

TEST(Session, RefusesImpossibleOptions) {
  ExpectError(ErrorCode::kUsage, {"expected 1 to 2048"},
              [&] { Session(Stories(), {.context = 4096}); });
  ExpectError(ErrorCode::kUsage, {"ctx is -1"}, [&] { Session(Stories(), {.context = -1}); });
  ExpectError(ErrorCode::kUsage, {"prefill-chunk is 0"},
              [&] { Session(Stories(), {.prefill_chunk = 0}); });
  ExpectError(ErrorCode::kUsage, {"threads is -1"},
              [&] { Model::Load(kStories, {.threads = -1}); });
  ExpectError(ErrorCode::kUsage, {"ISA 'z80'"}, [&] { Model::Load(kStories, {.isa = "z80"}); });
}

TEST(Session, ContextMustFitIntoMemory) {
  const std::string golden = std::string(MLA_TEST_DATA) + "/goldens/deepseek_v2_lite";
  std::string config = ReadWholeFile(golden + "/config.json");
  const std::string key = "\"max_position_embeddings\": ";
  const size_t at = config.find(key);
  ASSERT_NE(at, std::string::npos);
  config.replace(at + key.size(), config.find(',', at) - at - key.size(), "1000000000000");
  const TempDir dir;
  dir.Write("config.json", config);
  dir.Write("model.safetensors", ReadWholeFile(golden + "/model.safetensors"));
  const Model model = Model::Load(dir.path(), {.threads = 1});
  ExpectError(ErrorCode::kResource,
              {"a context of 1000000000000 tokens", "tokens would fit", "--ctx"},
              [&] { Session(model, {.context = 1000000000000}); });
  // Without a wish, as much as there is room for.
  Session session(model);
  EXPECT_GT(session.context(), 1000);
  EXPECT_LT(session.context(), 1000000000000);
  session.Feed(SomeTokens(1));
}

TEST(Session, ProgressStopsBetweenChunks) {
  Session session(Stories(), {.attention = Attention::kAbsorbed, .prefill_chunk = 10});
  EXPECT_EQ(session.Feed(SomeTokens(55),
                         [&](int64_t done, int64_t total) {
                           EXPECT_EQ(total, 55);
                           return done < 30;
                         }),
            30);
  EXPECT_EQ(session.position(), 30);
  EXPECT_FALSE(session.logits().empty());
}

TEST(Session, ProgressStopsBetweenLayersAndDropsTheChunk) {
  Session session(Stories(), {.attention = Attention::kAbsorbed, .prefill_chunk = 10});
  int calls = 0;
  // Seven calls per chunk: before each of six layers, and after the chunk.
  const auto stop_in_the_second = [&](int64_t, int64_t) { return ++calls < 7 + 4; };
  EXPECT_EQ(session.Feed(SomeTokens(55), stop_in_the_second), 10);
  EXPECT_EQ(calls, 11);
  EXPECT_EQ(session.position(), 10);
  // What follows is as if the stopped chunk had never been.
  const auto ids = SomeTokens(55);
  session.Feed(std::span(ids).subspan(10));
  const auto want =
      LogitsAfter(Stories(), ids, {.attention = Attention::kAbsorbed, .prefill_chunk = 10});
  EXPECT_TRUE(std::equal(want.begin(), want.end(), session.logits().begin()));
  calls = 100;
  EXPECT_EQ(session.Feed(ids, stop_in_the_second), 0);
  EXPECT_TRUE(session.logits().empty());
}

TEST(Session, TwoSessionsDoNotMeet) {
  const auto a = SomeTokens(40);
  auto b = SomeTokens(41);
  b[5] = 77;
  Session first(Stories(), {.attention = Attention::kSplitKv});
  Session second(Stories(), {.attention = Attention::kDecompressed});
  for (size_t i = 0; i < a.size(); ++i) {
    first.Feed(std::span(a).subspan(i, 1));
    second.Feed(std::span(b).subspan(i, 1));
  }
  Session alone(Stories(), {.attention = Attention::kSplitKv});
  for (size_t i = 0; i < a.size(); ++i) alone.Feed(std::span(a).subspan(i, 1));
  EXPECT_TRUE(std::equal(alone.logits().begin(), alone.logits().end(), first.logits().begin()));
}

TEST(Session, LoadLineOnlyWhenAbsorbed) {
  std::vector<std::string> lines;
  LoadOptions options{.threads = 1};
  options.log = [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kNotice) lines.emplace_back(line);
  };
  const Model model = Model::Load(kStories, options);
  const Session off(model, {.attention = Attention::kDecompressed});
  EXPECT_TRUE(lines.empty());
  const Session on(model, {.attention = Attention::kSplitKv});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "mla: absorbed attention: 6/6 layers folded; 1280 -> 160 cache bytes per token and "
            "layer (8.0x); split-kv on; fold bf16 in place, 0 bytes extra");
}

TEST(Model, TextRoundTripAndStream) {
  const std::string text = "Once upon a time there was a little girl who";
  const auto ids = Stories().Encode(text);
  EXPECT_EQ(ids.front(), 0);
  EXPECT_EQ(Stories().Decode(std::span(ids).subspan(1)), text);
  TextStream stream = Stories().Stream();
  std::string streamed;
  for (size_t i = 1; i < ids.size(); ++i) streamed += stream.Push(ids[i]);
  EXPECT_EQ(streamed + stream.Flush(), text);
  EXPECT_EQ(Stories().Encode(""), std::vector<int32_t>{0});
  EXPECT_TRUE(Stories().IsEndOfText(1));
  EXPECT_FALSE(Stories().IsEndOfText(2));
}

TEST(Model, InfoAddsUp) {
  const ModelInfo& info = Stories().info();
  EXPECT_EQ(info.parameters, 9533056);
  int64_t bytes = 0;
  for (const NamedBytes& kind : info.kinds) bytes += kind.bytes;
  EXPECT_GE(info.weight_bytes, bytes);
  EXPECT_LE(info.weight_bytes, bytes + bytes / 100);
  EXPECT_EQ(info.fold_layers, 6);
  EXPECT_EQ(info.fold_elements, 6 * 8 * (32 + 32) * 64);
  EXPECT_EQ(info.fold_extra_bytes, 0);
}

}  // namespace
}  // namespace mla
