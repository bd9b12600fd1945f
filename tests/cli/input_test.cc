// Pure helpers for input: numbers, token lists, JSON lines, perplexity windows.
#include <gtest/gtest.h>

#include "cli/json_input.h"
#include "cli/options.h"
#include "cli/prompt.h"
#include "cli/windows.h"
#include "support/expect_error.h"

namespace mla {
namespace {

using Tokens = std::vector<int32_t>;

TEST(Numbers, AreOneIntegerInRange) {
  EXPECT_EQ(ParseInteger("12", 1, 12, "--n"), 12);
  EXPECT_EQ(ParseInteger("-3", -3, 0, "--n"), -3);
  for (const char* text : {"", " 1", "1 ", "+1", "1.0", "1e3", "0x10", "nan", "13", "0", "-1",
                           "99999999999999999999", "1,2", "--n"}) {
    ExpectError(ErrorCode::kUsage, {"--n", "from 1 to 12", text},
                [&] { ParseInteger(text, 1, 12, "--n"); });
  }
}

TEST(Numbers, AreOneFiniteNumberInRange) {
  EXPECT_EQ(ParseNumber("0.5", 0, 1, "--x"), 0.5);
  EXPECT_EQ(ParseNumber("1", 0, 1, "--x"), 1);
  for (const char* text : {"", "nan", "inf", "-inf", "1.5", "-0.1", "1e999", "0.5x", "a"}) {
    ExpectError(ErrorCode::kUsage, {"--x", "from 0 to 1", text},
                [&] { ParseNumber(text, 0, 1, "--x"); });
  }
}

TEST(Numbers, MayExcludeTheLowest) {
  EXPECT_EQ(ParseNumber("1e-9", 0, 1, "--x", Lowest::kExcluded), 1e-9);
  ExpectError(ErrorCode::kUsage, {"--x", "above 0, at most 1", "'0'"},
              [] { ParseNumber("0", 0, 1, "--x", Lowest::kExcluded); });
}

TEST(Numbers, ListsHaveNoHoles) {
  EXPECT_EQ(ParseIntegerList("4,16", 1, 16, "--n"), (std::vector<int64_t>{4, 16}));
  for (const char* text : {"", "4,", ",4", "4,,5", "4,17", "4 5"}) {
    ExpectError(ErrorCode::kUsage, {"--n"}, [&] { ParseIntegerList(text, 1, 16, "--n"); });
  }
}

TEST(TokenText, TakesBlanksAroundIdsOnly) {
  EXPECT_EQ(ParseTokens("0,1, 2 ,\n3\n", "--tokens"), (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(ParseTokens("2147483647", "--tokens"), (Tokens{2147483647}));
  for (const char* text : {"", " ", "1 2", "1,,2", "-1", "2147483648", "1,x", "[1,2]"}) {
    ExpectError(ErrorCode::kUsage, {"--tokens"}, [&] { ParseTokens(text, "--tokens"); });
  }
  EXPECT_EQ(JoinTokens({1, 2, 3}), "1,2,3");
}

TEST(TokenJson, IsAListOrAnObject) {
  EXPECT_EQ(TokensFromJson("[1,2]", "f"), (Tokens{1, 2}));
  EXPECT_EQ(TokensFromJson(R"({"tokens":[3],"x":0})", "f"), (Tokens{3}));
  EXPECT_EQ(TokensFromJsonObject(R"({"tokens":[]})", "f"), Tokens{});
  for (const char* json :
       {"", "[1", "3", "\"1\"", "{}", R"({"tokens":1})", "[1.5]", "[\"1\"]", "[-1]", "[null]",
        "[2147483648]", "[18446744073709551615]", "[1e3]", "[[1]]"}) {
    ExpectError(ErrorCode::kBadInput, {"f: "}, [&] { TokensFromJson(json, "f"); });
  }
  ExpectError(ErrorCode::kBadInput, {"f: tokens: item 2", "-7"},
              [] { TokensFromJson(R"({"tokens":[1,-7]})", "f"); });
  ExpectError(ErrorCode::kBadInput, {"f: "}, [] { TokensFromJsonObject("[1]", "f"); });
}

TEST(TokenJson, RefusesDeepNesting) {
  const std::string deep(100000, '[');
  ExpectError(ErrorCode::kBadInput, {"f: ", "nested"}, [&] { TokensFromJson(deep, "f"); });
}

TEST(TextJson, IsTextOrBytes) {
  EXPECT_EQ(TextFromJsonObject(R"({"text":"\u00e9"})", "l"), "\xC3\xA9");
  EXPECT_EQ(TextFromJsonObject(R"({"bytes_hex":"61fF00"})", "l"), std::string("a\xFF\0", 3));
  for (const char* json :
       {"[]", "{}", R"({"text":1})", R"({"bytes_hex":"6"})", R"({"bytes_hex":"zz"})",
        R"({"text":"a","bytes_hex":"61"})", R"({"text":"\ud800"})"}) {
    ExpectError(ErrorCode::kBadInput, {"l: "}, [&] { TextFromJsonObject(json, "l"); });
  }
}

TEST(Windows, PredictEveryTokenButTheFirstOnce) {
  using Windows = std::vector<Tokens>;
  const Tokens with_bos{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(PerplexityWindows(with_bos, 0, 100), (Windows{with_bos}));
  EXPECT_EQ(PerplexityWindows(with_bos, 0, 6), (Windows{with_bos}));
  EXPECT_EQ(PerplexityWindows(with_bos, 0, 4), (Windows{{0, 1, 2, 3}, {0, 4, 5}}));
  EXPECT_EQ(PerplexityWindows(with_bos, 0, 2), (Windows{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 5}}));
  const Tokens without{7, 1, 2, 3, 4};
  EXPECT_EQ(PerplexityWindows(without, 0, 3), (Windows{{7, 1, 2}, {2, 3, 4}}));
  EXPECT_EQ(PerplexityWindows(without, std::nullopt, 4), (Windows{{7, 1, 2, 3}, {3, 4}}));
}

TEST(Windows, NeedSomethingToPredict) {
  ExpectError(ErrorCode::kBadInput, {"1 tokens", "nothing to predict"},
              [] { PerplexityWindows(Tokens{0}, 0, 10); });
  ExpectError(ErrorCode::kBadInput, {"0 tokens"}, [] { PerplexityWindows(Tokens{}, 0, 10); });
  ExpectError(ErrorCode::kUsage, {"--ctx", "at least 2"}, [] {
    PerplexityWindows(Tokens{0, 1}, 0, 1);
  });
}

}  // namespace
}  // namespace mla
