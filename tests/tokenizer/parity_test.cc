// Ids, text and streams against the reference's, for every tokenizer under tests/data/tokenizers.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tokenizer/tokenizer.h"

namespace mla {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json ReadJson(const fs::path& path) {
  std::ifstream stream(path);
  return json::parse(stream);
}

std::vector<std::string> Names() {
  const fs::path root = fs::path(MLA_TEST_DATA) / "tokenizers";
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().filename() == "parity.json") {
      names.push_back(fs::relative(entry.path().parent_path(), root).string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Unhex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string Stream(const std::shared_ptr<const Tokenizer>& tokenizer,
                   const std::vector<int32_t>& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) text += decoder.Push(id);
  return text + decoder.Flush();
}

class ParityTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    directory_ = fs::path(MLA_TEST_DATA) / "tokenizers" / GetParam();
    tokenizer_ = Tokenizer::Load(directory_.string());
  }

  fs::path directory_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_P(ParityTest, EncodesAsReference) {
  size_t checked = 0;
  for (const json& row : ReadJson(directory_ / "parity.json")) {
    const bool is_bytes = row.contains("bytes_hex");
    const std::string text = is_bytes ? Unhex(row["bytes_hex"]) : row["text"].get<std::string>();
    const auto name = row["name"].get<std::string>() + (is_bytes ? " " + text : "");
    EXPECT_EQ(tokenizer_->Encode(text), row["ids"].get<std::vector<int32_t>>()) << name;
    EXPECT_EQ(tokenizer_->Encode(text, {.add_special = false}),
              row["ids_no_special"].get<std::vector<int32_t>>())
        << name;
    if (row.contains("ids_plain")) {
      EXPECT_EQ(tokenizer_->Encode(text, {.add_special = false, .parse_special = false}),
                row["ids_plain"].get<std::vector<int32_t>>())
          << name;
    }
    ++checked;
  }
  EXPECT_GT(checked, 50u);
}

TEST_P(ParityTest, DecodesAndStreamsAsReference) {
  for (const json& row : ReadJson(directory_ / "parity.json")) {
    if (row.contains("bytes_hex")) continue;
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    const std::string name = row["name"];
    const std::string decoded = row["decoded"];
    const std::string skipped = row.value("decoded_skip_special", decoded);
    EXPECT_EQ(tokenizer_->Decode(ids), decoded) << name;
    EXPECT_EQ(tokenizer_->Decode(ids, true), skipped) << name;
    EXPECT_EQ(Stream(tokenizer_, ids, false), decoded) << name;
    EXPECT_EQ(Stream(tokenizer_, ids, true), skipped) << name;
  }
}

TEST_P(ParityTest, DecodesArbitraryIdsAsReference) {
  const fs::path path = directory_ / "decode.json";
  if (!fs::exists(path)) GTEST_SKIP() << "no decode.json for this tokenizer";
  for (const json& row : ReadJson(path)) {
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    const std::string decoded = row["decoded"];
    EXPECT_EQ(tokenizer_->Decode(ids), decoded) << row["ids"];
    EXPECT_EQ(tokenizer_->Decode(ids, true), row["decoded_skip_special"].get<std::string>());
    if (row["stream"].is_null()) continue;
    StreamDecoder decoder(tokenizer_);
    std::string all;
    for (size_t i = 0; i < ids.size(); ++i) {
      const json& expected = row["stream"][i];
      const std::string text = decoder.Push(ids[i]);
      EXPECT_EQ(text, expected.is_null() ? "" : expected.get<std::string>())
          << row["ids"] << " at " << i;
      all += text;
    }
    EXPECT_EQ(all + decoder.Flush(), decoded) << row["ids"];
  }
}

INSTANTIATE_TEST_SUITE_P(All, ParityTest, testing::ValuesIn(Names()), [](const auto& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
});

TEST(ParityData, IsThere) { EXPECT_GE(Names().size(), 40u); }

}  // namespace
}  // namespace mla
