#include "io/json_file.h"

#include <string>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

JsonObject Parse(const std::string& text) { return JsonObject::Parse(text, "config.json"); }

TEST(JsonFile, TypedAccess) {
  const auto json = Parse(R"({"i": 7, "n": 1e-6, "b": true, "s": "x", "z": null,
                              "o": {"i": 3}, "l": [1, 2], "names": ["a", "b"]})");
  EXPECT_EQ(json.Int("i", 0, 10), 7);
  EXPECT_EQ(json.Int("absent", 0, 10, 4), 4);
  EXPECT_DOUBLE_EQ(json.Number("n", 0, 1), 1e-6);
  EXPECT_DOUBLE_EQ(json.Number("i", 0, 10), 7);
  EXPECT_TRUE(json.Bool("b"));
  EXPECT_EQ(json.String("s"), "x");
  EXPECT_TRUE(json.Has("z"));
  EXPECT_TRUE(json.IsNull("z"));
  EXPECT_FALSE(json.HasValue("z"));
  EXPECT_EQ(json.Object("o").Int("i", 0, 10), 3);
  EXPECT_EQ(json.IntOrList("l", 0, 9), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(json.IntOrList("i", 0, 9), (std::vector<int64_t>{7}));
  EXPECT_TRUE(json.IntOrList("z", 0, 9).empty());
  EXPECT_EQ(json.Strings("names"), (std::vector<std::string>{"a", "b"}));
}

TEST(JsonFile, MessagesNameFileFieldExpectedAndFound) {
  const auto json = Parse(R"({"i": "72", "f": 1.0, "big": 18446744073709551615, "neg": -1,
                              "z": null, "o": {"i": []}})");
  const auto bad = ErrorCode::kBadInput;
  ExpectError(bad, {"config.json: i is \"72\"; expected an integer from 1 to 9"},
              [&] { json.Int("i", 1, 9); });
  ExpectError(bad, {"f is 1.0"}, [&] { json.Int("f", 1, 9); });
  ExpectError(bad, {"big is 18446744073709551615"}, [&] { json.Int("big", 0, INT64_MAX); });
  ExpectError(bad, {"neg is -1"}, [&] { json.Int("neg", 0, 9); });
  ExpectError(bad, {"z is null"}, [&] { json.Int("z", 0, 9, 3); });
  ExpectError(bad, {"none is missing"}, [&] { json.Int("none", 0, 9); });
  ExpectError(bad, {"i is \"72\"", "number"}, [&] { json.Number("i", 0, 1); });
  ExpectError(bad, {"neg is -1"}, [&] { json.Number("neg", 0, 1); });
  ExpectError(bad, {"f is 1.0", "true or false"}, [&] { json.Bool("f"); });
  ExpectError(bad, {"f is 1.0", "a string"}, [&] { json.String("f"); });
  ExpectError(bad, {"o.i is []"}, [&] { json.Object("o").Int("i", 0, 9); });
  ExpectError(bad, {"i is \"72\"", "an object"}, [&] { json.Object("i"); });
}

TEST(JsonFile, MalformedDocuments) {
  const auto bad = ErrorCode::kBadInput;
  ExpectError(bad, {"config.json: not valid JSON", "byte"}, [] { Parse("{\"a\": }"); });
  ExpectError(bad, {"not valid JSON"}, [] { Parse(""); });
  ExpectError(bad, {"not valid JSON"}, [] { Parse("{\"a\": NaN}"); });
  ExpectError(bad, {"not valid JSON"}, [] { Parse("{\"a\": 1e999}"); });
  ExpectError(bad, {"not valid JSON"}, [] { Parse("{\"a\": \"\xff\"}"); });
  ExpectError(bad, {"not valid JSON"}, [] { Parse("{} x"); });
  ExpectError(bad, {"a NUL at byte 2"}, [] { Parse(std::string("{}\0x", 4)); });
  ExpectError(bad, {"expected a JSON object"}, [] { Parse("[1]"); });
  ExpectError(bad, {"\"a\" appears twice"}, [] { Parse(R"({"a": 1, "a": 1})"); });
  ExpectError(bad, {"\"b\" appears twice"}, [] { Parse(R"({"a": {"b": 1, "b": 2}})"); });
  EXPECT_NO_THROW(Parse(R"({"a": {"b": 1}, "c": {"b": 2}})"));
  const std::string deep =
      std::string("{\"a\":") + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  ExpectError(bad, {"nested 100001 deep", "at most 64"}, [&] { Parse(deep); });
}

TEST(JsonFile, NamesInMessagesArePrintable) {
  EXPECT_EQ(Printable("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(Printable("größe"), "größe");
  EXPECT_EQ(Printable(std::string("a\0\x1b[2J\n\"", 8)), "a\\u0000\\u001b[2J\\n\\\"");
  EXPECT_EQ(Printable("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(Printable(std::string(1000, 'x')), std::string(120, 'x') + "...");
}

TEST(JsonFile, Files) {
  TempDir dir;
  dir.Write("big.json", std::string("{\"a\": \"") + std::string(100, 'x') + "\"}");
  EXPECT_NO_THROW(JsonObject::Read(dir.File("big.json"), 1000));
  ExpectError(ErrorCode::kBadInput, {"big.json", "at most 50"},
              [&] { JsonObject::Read(dir.File("big.json"), 50); });
  ExpectError(ErrorCode::kNotFound, {"none.json"},
              [&] { JsonObject::Read(dir.File("none.json"), 50); });
  ExpectError(ErrorCode::kNotFound, {dir.path().c_str()},
              [&] { JsonObject::Read(dir.path(), 50); });
}

}  // namespace
}  // namespace mla
