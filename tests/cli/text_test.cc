// Pure helpers for text: UTF-8, stop strings, JSON output, sizes.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/json.h"
#include "cli/stop_filter.h"
#include "cli/units.h"
#include "cli/utf8.h"
#include "support/expect_error.h"

namespace mla {
namespace {

TEST(Utf8, NamesTheFirstInvalidByte) {
  EXPECT_FALSE(FirstInvalidUtf8(""));
  EXPECT_FALSE(FirstInvalidUtf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x90\xB1"));
  EXPECT_FALSE(FirstInvalidUtf8(std::string_view("a\0b", 3)));
  const struct {
    const char* text;
    size_t at;
  } cases[] = {
      {"ab\xFF", 2},               // no such byte
      {"a\x80", 1},                // a continuation alone
      {"a\xC3", 1},                // cut off
      {"a\xE2\x82", 1},            // cut off
      {"\xC0\x80", 0},             // overlong
      {"\xE0\x80\x80", 0},         // overlong
      {"\xF0\x80\x80\x80", 0},     // overlong
      {"\xED\xA0\x80", 0},         // surrogate
      {"\xF4\x90\x80\x80", 0},     // above U+10FFFF
      {"\xC3\xA9\xE2\x28\xA1", 2}  // a bad continuation
  };
  for (const auto& c : cases) EXPECT_EQ(FirstInvalidUtf8(c.text), c.at) << c.text;
  ExpectError(ErrorCode::kBadInput, {"-p", "0xff", "offset 2"},
              [] { RequireUtf8("ab\xFF", "-p"); });
}

/// What a filter lets through when the text comes in pieces of `piece` bytes.
std::string Filtered(const std::vector<std::string>& stops, const std::string& text, size_t piece,
                     bool* stopped) {
  StopFilter filter(stops);
  std::string out;
  for (size_t i = 0; i < text.size() && !filter.stopped(); i += piece) {
    out += filter.Push(text.substr(i, piece));
  }
  *stopped = filter.stopped();
  return out + filter.Flush();
}

TEST(StopFilter, DoesNotDependOnHowTheTextIsCut) {
  const struct {
    std::vector<std::string> stops;
    const char* text;
    const char* want;
    bool stopped;
  } cases[] = {
      {{}, "all of it", "all of it", false},
      {{"END"}, "one two END three", "one two ", true},
      {{"END"}, "one EN END", "one EN ", true},
      {{"END"}, "one EN", "one EN", false},
      {{"aab"}, "aaaab", "aa", true},
      {{"abc", "b"}, "xabc", "xa", true},  // b is complete first
      {{"bc", "abc"}, "xabc", "x", true},  // together: the longest
      {{"\n\n", "###"}, "a\n##\nb", "a\n##\nb", false},
      {{"END"}, "END", "", true},
  };
  for (const auto& c : cases) {
    for (size_t piece = 1; piece <= 5; ++piece) {
      bool stopped = false;
      EXPECT_EQ(Filtered(c.stops, c.text, piece, &stopped), c.want) << c.text << " by " << piece;
      EXPECT_EQ(stopped, c.stopped) << c.text << " by " << piece;
    }
  }
}

TEST(StopFilter, PassesTextOnAsSoonAsItIsCertain) {
  StopFilter filter({"END"});
  EXPECT_EQ(filter.Push("abE"), "ab");
  EXPECT_EQ(filter.Push("N"), "");
  EXPECT_EQ(filter.Push("x"), "ENx");
  EXPECT_EQ(filter.Push("END"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.Push("more"), "");
  EXPECT_EQ(filter.Flush(), "");
}

TEST(JsonText, ReadsBackAsItWasWritten) {
  const std::string text = "q\" b\\ n\n t\t c\x01 \xC3\xA9 \xF0\x9F\x90\xB1";
  const std::string json =
      JsonText()
          .Add("text", text)
          .Add("n", int64_t{1} << 40)
          .Add("size", size_t{3})
          .Add("x", 0.1)
          .Add("yes", true)
          .Add("name", "abc")
          .Add("tokens", std::vector<int32_t>{1, 2})
          .Add("none", std::vector<int32_t>{})
          .Add("inner", JsonText().Add("a", 1))
          .Add("list", std::vector<JsonText>{JsonText(), JsonText().Add("b", 2)})
          .Text();
  const auto read = nlohmann::json::parse(json);
  EXPECT_EQ(read["text"], text);
  EXPECT_EQ(read["n"], int64_t{1} << 40);
  EXPECT_EQ(read["size"], 3);
  EXPECT_EQ(read["x"], 0.1);
  EXPECT_EQ(read["yes"], true);
  EXPECT_EQ(read["name"], "abc");
  EXPECT_EQ(read["tokens"].dump(), "[1,2]");
  EXPECT_EQ(read["none"].dump(), "[]");
  EXPECT_EQ(read["inner"]["a"], 1);
  EXPECT_EQ(read["list"].dump(), R"([{},{"b":2}])");
  EXPECT_EQ(json.find('\n'), std::string::npos);
}

TEST(JsonText, IsAlwaysUtf8OnOneLine) {
  EXPECT_EQ(JsonString("a\xFF\xC3"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(JsonString("\xC2\x85 \xE2\x80\xA8 \xE2\x80\xA9"), R"("\u0085 \u2028 \u2029")");
  EXPECT_EQ(JsonText().Add("x", std::nan("")).Text(), R"({"x":null})");
  EXPECT_EQ(JsonText().Add("x", -std::numeric_limits<double>::infinity()).Text(), R"({"x":null})");
}

TEST(Units, SayWhatTheyAre) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1152), "1152 B");
  EXPECT_EQ(FormatBytes(10 * 1024), "10.0 KiB");
  // The fold of DeepSeek-V2-Lite, which is 113 MB but 108 MiB.
  EXPECT_EQ(FormatBytes(int64_t{16} * 256 * 512 * 27 * 2), "108.0 MiB");
  EXPECT_EQ(BytesFromGib(1.5), int64_t{3} << 29);
}

}  // namespace
}  // namespace mla
