#include "io/safetensors.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

std::vector<SafetensorsEntry> Parse(const std::string& file) {
  return ParseSafetensors({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, "w.st");
}

void ExpectBad(std::initializer_list<const char*> parts, const std::string& file) {
  ExpectError(ErrorCode::kBadInput, parts, [&] { Parse(file); });
}

// One F32 tensor of two elements with the given offsets and shape, and `data` bytes behind it.
std::string One(const std::string& shape, const std::string& offsets, size_t data = 8) {
  return RawSafetensors(
      R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
      std::string(data, '\1'));
}

std::string Two(const std::string& first, const std::string& second, size_t data) {
  return RawSafetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
                            R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}",
                        std::string(data, '\1'));
}

TEST(Safetensors, ReadsEntriesInFileOrder) {
  const std::string file = RawSafetensors(R"({"__metadata__":{"format":"pt"},
        "b":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},
        "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},
        "empty":{"dtype":"I64","shape":[3,0],"data_offsets":[8,8]}}   )",
                                          "12345678");
  const auto entries = Parse(file);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].bytes, 4);
  EXPECT_TRUE(entries[0].shape.empty());
  EXPECT_EQ(entries[1].name, "b");
  EXPECT_EQ(entries[1].dtype, DType::kBf16);
  EXPECT_EQ(entries[1].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(file.substr(static_cast<size_t>(entries[1].offset), 4), "5678");
  EXPECT_EQ(entries[2].bytes, 0);
  EXPECT_TRUE(Parse(RawSafetensors("{}", "")).empty());
}

TEST(Safetensors, PassesOverUnknownFields) {
  const auto entries = Parse(RawSafetensors(
      R"({"a":{"x":{"dtype":[{"shape":1}]},"dtype":"U8","y":[1,[2]],"shape":[1],"z":-1,
          "w":"s","data_offsets":[0,1]}})",
      "1"));
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].dtype, DType::kU8);
}

TEST(Safetensors, LengthField) {
  ExpectBad({"w.st", "too few", "truncated"}, "");
  ExpectBad({"too few"}, std::string(7, '\0'));
  ExpectBad({"begin with '{'"}, std::string(8, '\0'));
  std::string longer = One("[2]", "[0,8]");
  longer[1] = 1;  // the header claims 256 bytes more
  ExpectBad({"the header claims", "truncated"}, longer);
  std::string huge = One("[2]", "[0,8]");
  for (int i = 0; i < 8; ++i) huge[static_cast<size_t>(i)] = '\xff';
  ExpectBad({"claims 18446744073709551615 bytes", "at most 100000000"}, huge);
  // 100,000,001 bytes, all there.
  ExpectBad({"claims 100000001 bytes"},
            RawSafetensors(std::string("{}") + std::string(99'999'999, ' '), ""));
}

TEST(Safetensors, HeaderIsNotJson) {
  ExpectBad({"begin with '{'"}, RawSafetensors("[]", ""));
  ExpectBad({"begin with '{'"}, RawSafetensors(" {}", ""));
  ExpectBad({"not valid JSON"}, RawSafetensors("{", ""));
  ExpectBad({"not valid JSON"}, RawSafetensors("{} {}", ""));
  ExpectBad({"contains a NUL"}, RawSafetensors(std::string("{}\0", 3), ""));
  ExpectBad({"not valid JSON"}, RawSafetensors("{\"\xff\":1}", ""));
  ExpectBad({"nested", "at most 64"},
            RawSafetensors(std::string("{\"a\":") + std::string(100'000, '['), ""));
  ExpectBad({"nested"}, RawSafetensors(std::string("{\"a\":{\"x\":") + std::string(70, '[') +
                                           std::string(70, ']') + "}}",
                                       ""));
}

TEST(Safetensors, HeaderOfAnotherStructure) {
  ExpectBad({"\"a\"", "found a number; expected an object"}, RawSafetensors(R"({"a":1})", ""));
  ExpectBad({"found null"}, RawSafetensors(R"({"a":null})", ""));
  ExpectBad({"found a list"}, RawSafetensors(R"({"a":[]})", ""));
  ExpectBad({"dtype is missing"}, RawSafetensors(R"({"a":{}})", ""));
  ExpectBad({"shape is missing"},
            RawSafetensors(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "1234"));
  ExpectBad({"data_offsets is missing"},
            RawSafetensors(R"({"a":{"dtype":"F32","shape":[1]}})", "1234"));
  ExpectBad({"dtype is or holds a number"}, RawSafetensors(R"({"a":{"dtype":1}})", ""));
  ExpectBad({"shape is or holds a string"}, RawSafetensors(R"({"a":{"shape":"1"}})", ""));
  ExpectBad({"shape is or holds a fraction"}, RawSafetensors(R"({"a":{"shape":[1.0]}})", ""));
  ExpectBad({"shape is or holds a list"}, RawSafetensors(R"({"a":{"shape":[[1]]}})", ""));
  ExpectBad({"shape is or holds an object"}, RawSafetensors(R"({"a":{"shape":{}}})", ""));
  ExpectBad({"shape holds -1"}, One("[-1]", "[0,8]"));
  ExpectBad({"shape holds 9223372036854775808"}, One("[9223372036854775808]", "[0,8]"));
  std::string ones = "[1";
  for (int i = 0; i < 32; ++i) ones += ",1";
  ExpectBad({"more than 32"}, One(ones + "]", "[0,4]", 4));
  ExpectBad({"data_offsets has 1 entries"}, One("[2]", "[0]"));
  ExpectBad({"data_offsets has 3 entries"}, One("[2]", "[0,8,9]"));
  ExpectBad({"__metadata__ holds a number"}, RawSafetensors(R"({"__metadata__":{"a":1}})", ""));
  ExpectBad({"__metadata__ holds an object"}, RawSafetensors(R"({"__metadata__":{"a":{}}})", ""));
  ExpectBad({"__metadata__"}, RawSafetensors(R"({"__metadata__":"x"})", ""));
}

TEST(Safetensors, DuplicateNames) {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  ExpectBad({"tensor \"a\" appears twice"}, RawSafetensors("{" + a + "," + a + "}", "1"));
  ExpectBad({"dtype appears twice"}, RawSafetensors(R"({"a":{"dtype":"U8","dtype":"U8"}})", "1"));
  ExpectBad({"\"__metadata__\" appears twice"},
            RawSafetensors(R"({"__metadata__":{},"__metadata__":{}})", ""));
}

TEST(Safetensors, UnknownDtype) {
  ExpectError(ErrorCode::kUnsupported, {"tensor \"a\"", "unknown dtype \"F4\""}, [] {
    Parse(RawSafetensors(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", "1"));
  });
}

TEST(Safetensors, OffsetsAndSizes) {
  EXPECT_NO_THROW(Parse(One("[2]", "[0,8]")));
  ExpectBad({"[8, 0] run backwards"}, One("[2]", "[8,0]"));
  ExpectBad({"span 8 bytes", "f32 x shape [3] needs 12"}, One("[3]", "[0,8]"));
  ExpectBad({"span 4 bytes", "needs 8"}, One("[2]", "[0,4]", 4));
  ExpectBad({"reach beyond the 7 bytes", "truncated"}, One("[2]", "[0,8]", 7));
  ExpectBad({"reach beyond"}, One("[2]", "[9223372036854775799,9223372036854775807]"));
  ExpectBad({"data_offsets holds -8"}, One("[2]", "[-8,0]"));
  ExpectBad({"does not fit in 63 bits"}, One("[4611686018427387904,2]", "[0,8]"));
  ExpectBad({"does not fit in 63 bits"}, One("[4294967296,4294967296]", "[0,0]", 0));
  // The product wraps to exactly the 8 bytes that are there.
  ExpectBad({"does not fit in 63 bits"}, One("[2305843009213693954,2]", "[0,8]"));
  EXPECT_NO_THROW(Parse(Two("[4,8]", "[0,4]", 8)));
  ExpectBad({"\"b\" begins at byte 2", "expected 4", "overlaps"}, Two("[0,4]", "[2,6]", 6));
  ExpectBad({"begins at byte 0", "overlaps"}, Two("[0,4]", "[0,4]", 4));
  ExpectBad({"\"b\" begins at byte 5", "belong to none"}, Two("[0,4]", "[5,9]", 9));
  ExpectBad({"\"a\" begins at byte 1"}, Two("[1,5]", "[5,9]", 9));
  ExpectBad({"9 bytes of data, of which the tensors cover 8"}, Two("[0,4]", "[4,8]", 9));
}

TEST(Safetensors, EveryTruncationIsRefused) {
  SafetensorsBuilder builder;
  builder.Add("a", "F32", {2}, "12345678").Add("b", "BF16", {3}, "123456");
  const std::string whole = builder.Bytes();
  EXPECT_EQ(Parse(whole).size(), 2u);
  for (size_t size = 0; size < whole.size(); ++size) ExpectBad({"w.st"}, whole.substr(0, size));
}

TEST(Safetensors, WriterRoundTrip) {
  TempDir dir;
  const std::vector<float> logits = {1, -2, 3.5f, 0, 1e-30f, -1e30f};
  const std::vector<uint16_t> half = {1, 2, 3};
  const SafetensorsTensor tensors[] = {
      {"logits", DType::kF32, {2, 3}, logits.data()},
      {"half \"quoted\"", DType::kBf16, {3}, half.data()},
      {"none", DType::kF8E4M3, {0}, nullptr},
  };
  WriteSafetensors(dir.File("out.safetensors"), tensors);
  const std::string file = ReadWholeFile(dir.File("out.safetensors"));
  const auto entries = Parse(file);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "logits");
  EXPECT_EQ(entries[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(entries[0].offset % 8, 0);
  EXPECT_EQ(std::memcmp(file.data() + entries[0].offset, logits.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file.data() + entries[1].offset, half.data(), 6), 0);
  EXPECT_EQ(entries[2].dtype, DType::kF8E4M3);
  // Nothing but the file itself is left, and a second write replaces it.
  WriteSafetensors(dir.File("out.safetensors"), std::span(tensors).first(1));
  EXPECT_EQ(Parse(ReadWholeFile(dir.File("out.safetensors"))).size(), 1u);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    files += entry.exists() ? 1 : 0;
  }
  EXPECT_EQ(files, 1);
}

TEST(Safetensors, UnwritableOutput) {
  TempDir dir;
  std::filesystem::create_directory(dir.File("taken"));
  dir.Write("taken/file", "x");
  const auto write = [](const std::string& path) { WriteSafetensors(path, {}); };
  ExpectError(ErrorCode::kIo, {"none/out", "cannot be written"},
              [&] { write(dir.File("none/out.safetensors")); });
  ExpectError(ErrorCode::kIo, {"taken"}, [&] { write(dir.File("taken")); });
}

}  // namespace
}  // namespace mla
