// Prompts, streams, speed and the embedded model's tokenizer.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tokenizer/tokenizer.h"

namespace mla {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> LoadData(const std::string& name) {
  return Tokenizer::Load(std::string(MLA_TEST_DATA) + "/tokenizers/" + name);
}

std::shared_ptr<const Tokenizer> LoadStories() {
  return Tokenizer::Load(std::string(MLA_MODELS) + "/stories-mla");
}

TEST(Stories, RoundTripsAndHasOneBos) {
  const auto tokenizer = LoadStories();
  EXPECT_EQ(tokenizer->vocab_size(), 4096);
  ASSERT_TRUE(tokenizer->bos_id().has_value());
  ASSERT_TRUE(tokenizer->eos_id().has_value());
  const int32_t bos = *tokenizer->bos_id();
  EXPECT_TRUE(tokenizer->IsSpecial(bos));
  EXPECT_EQ(tokenizer->TokenToId(*tokenizer->IdToToken(bos)), bos);
  const std::string text =
      "Once upon a time, a little girl found 3 \xf0\x9f\x98\x80 in the caf\xc3\xa9.\n";
  const Ids ids = tokenizer->Encode(text);
  EXPECT_EQ(ids.front(), bos);
  EXPECT_EQ(tokenizer->Decode(ids, true), text);
  EXPECT_EQ(tokenizer->EncodePrompt(text), ids);
  const std::string with_bos = *tokenizer->IdToToken(bos) + text;
  EXPECT_EQ(tokenizer->EncodePrompt(with_bos), ids);
  EXPECT_EQ(tokenizer->EncodePrompt(""), Ids{bos});
}

TEST(Prompt, BosComesFromTheConfigWhereThePostProcessorHasNone) {
  const auto tokenizer = LoadData("deepseek_llm");  // add_bos_token, no template
  const int32_t bos = *tokenizer->bos_id();
  EXPECT_EQ(tokenizer->Encode("hello").front(), tokenizer->EncodePrompt("hello")[1]);
  EXPECT_EQ(tokenizer->EncodePrompt("hello").front(), bos);
  const Ids once = tokenizer->EncodePrompt(*tokenizer->IdToToken(bos) + "hello");
  EXPECT_EQ(once, tokenizer->EncodePrompt("hello"));
  const auto without = LoadData("deepseek_v3");  // add_bos_token is false
  EXPECT_EQ(without->EncodePrompt("hello"), without->Encode("hello"));
}

TEST(Prompt, SpecialTokensInTheTextCanBePlain) {
  const auto tokenizer = LoadData("deepseek_v3");
  const std::string bos = *tokenizer->IdToToken(*tokenizer->bos_id());
  EXPECT_EQ(tokenizer->Encode(bos), Ids{*tokenizer->bos_id()});
  const Ids plain = tokenizer->Encode(bos, {.parse_special = false});
  EXPECT_GT(plain.size(), 1u);
  EXPECT_EQ(tokenizer->Decode(plain), bos);
}

TEST(Decode, IdsWithoutATokenAddNothing) {
  const auto tokenizer = LoadData("youtu");  // its ids 1600..1604 belong to no token
  EXPECT_FALSE(tokenizer->IdToToken(1602).has_value());
  EXPECT_EQ(tokenizer->Decode(Ids{64, 1602, 64}), tokenizer->Decode(Ids{64, 64}));
}

TEST(Stream, NeverEmitsHalfACharacter) {
  const auto tokenizer = LoadData("deepseek_v3");
  const std::string emoji = "\xf0\x9f\x98\x80";
  const Ids ids = tokenizer->Encode("x" + emoji + "y");
  StreamDecoder stream(tokenizer);
  std::string all;
  for (const int32_t id : ids) {
    const std::string text = stream.Push(id);
    if (!text.empty()) {
      EXPECT_NE(static_cast<unsigned char>(text.front()) & 0xc0, 0x80);
      EXPECT_EQ(text.find("\xef\xbf\xbd"), std::string::npos);
    }
    all += text;
  }
  EXPECT_EQ(all + stream.Flush(), "x" + emoji + "y");
  stream.Push(ids[1]);  // cut inside the emoji: what is left is one replacement character
  EXPECT_EQ(stream.Flush(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.Flush(), "");
}

TEST(Stream, EqualsDecodeForRandomIds) {
  std::mt19937 random(3);
  for (const char* name : {"deepseek_v3", "glm4", "tekken", "features/unk_fused"}) {
    const auto tokenizer = LoadData(name);
    std::uniform_int_distribution<int32_t> any(0,
                                               static_cast<int32_t>(tokenizer->vocab_size()) - 1);
    for (int round = 0; round < 200; ++round) {
      Ids ids(static_cast<size_t>(round % 23));
      for (int32_t& id : ids) id = any(random);
      for (const bool skip : {false, true}) {
        StreamDecoder stream(tokenizer, skip);
        std::string text;
        for (const int32_t id : ids) text += stream.Push(id);
        EXPECT_EQ(text + stream.Flush(), tokenizer->Decode(ids, skip)) << name;
      }
    }
  }
}

double Seconds(const Tokenizer& tokenizer, const std::string& text) {
  const auto start = std::chrono::steady_clock::now();
  const Ids ids = tokenizer.Encode(text);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(tokenizer.Decode(ids, true), text);
  return taken.count();
}

std::string Repeat(const std::string& unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

TEST(Speed, IsLinear) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr size_t kBytes = 1 << 17;
#else
  constexpr size_t kBytes = 1 << 19;
#endif
  const double limit = 8.0;  // quadratic behaviour takes minutes; usual: 0.1 s
  std::string word;
  std::mt19937 random(5);
  while (word.size() < kBytes) word += static_cast<char>('a' + random() % 26);
  const std::pair<const char*, std::string> texts[] = {
      {"prose", Repeat("Once upon a time there was a girl, and 12345 wolves.\n", kBytes)},
      {"one word", word},
      {"one letter", std::string(kBytes, 'a')},
      {"spaces", std::string(kBytes, ' ') + "1"},
      {"mixed spaces", Repeat(" \n\t", kBytes) + "x"},
      {"newlines", std::string(kBytes, '\n')},
      {"punctuation", Repeat("=-", kBytes)},
      {"digits", std::string(kBytes, '7')},
      {"Chinese", Repeat("\xe6\xb7\xb1\xe5\xba\xa6\xe6\xb1\x82\xe7\xb4\xa2", kBytes)},
      {"new characters", Repeat("\xf0\xb1\x8d\x90\xea\x9f\x8b", kBytes)},
      {"special tokens", Repeat("<\xef\xbd\x9c"
                                "begin",
                                kBytes)},
  };
  for (const char* name :
       {"deepseek_llm", "deepseek_coder", "deepseek_v3", "glm4", "youtu", "tekken"}) {
    const auto tokenizer = LoadData(name);
    for (const auto& [what, text] : texts) {
      const double seconds = Seconds(*tokenizer, text);
      EXPECT_LT(seconds, limit) << name << ": " << what;
      RecordProperty(std::string(name) + "/" + what, std::to_string(seconds));
      if (std::getenv("MLA_TEST_TIMES") != nullptr) {
        std::printf("%-16s %-16s %.3f s\n", name, what, seconds);
      }
    }
  }
}

TEST(Threads, ShareOneTokenizer) {
  const auto tokenizer = LoadStories();
  const std::string text = Repeat("The wolf said: \"Good morning, 42!\"\n", 5000);
  const Ids expected = tokenizer->Encode(text);
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results) {
    threads.emplace_back([&] { result = tokenizer->Encode(text); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace mla
