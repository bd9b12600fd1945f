// The public pieces behind the commands: footprints and the logits file.
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "mla/tools.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

TEST(FootprintRows, MatchTheExampleOf128HeadsOf128) {
  const std::vector<FootprintRow> rows =
      Footprint(FindGeometry("deepseek-v3"), 8, CacheType::kBf16, 1 << 30);
  ASSERT_EQ(rows.size(), 5u);
  const struct {
    const char* scheme;
    int64_t elements;
    double ratio;
  } want[] = {{"MHA", 32768, 56.9},
              {"GQA-8", 2048, 3.56},
              {"MQA", 256, 0.444},
              {"MLA", 576, 1},
              {"MLA decompressed", 40960, 71.1}};
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].scheme, want[i].scheme);
    EXPECT_EQ(rows[i].elements, want[i].elements);
    EXPECT_EQ(rows[i].bytes, 2 * want[i].elements);
    EXPECT_EQ(rows[i].bytes_all_layers, 61 * rows[i].bytes);
    EXPECT_NEAR(rows[i].ratio, want[i].ratio, 0.05 * want[i].ratio);
    EXPECT_EQ(rows[i].tokens_in_budget, (1 << 30) / rows[i].bytes_all_layers);
  }
}

TEST(FootprintRows, WorkForEveryKnownGeometryAndRefuseNonsense) {
  for (const Geometry& known : KnownGeometries()) {
    const std::vector<FootprintRow> rows = Footprint(known, 1, CacheType::kF32, 0);
    EXPECT_EQ(rows[3].elements, known.kv_rank + known.rope) << known.name;
    EXPECT_EQ(rows[1].elements, rows[2].elements) << "one group is MQA";
    EXPECT_EQ(rows[0].tokens_in_budget, 0);
  }
  Geometry g = FindGeometry("deepseek-v2-lite");
  ExpectError(ErrorCode::kUsage, {"kv heads", "16", "5"},
              [&] { Footprint(g, 5, CacheType::kBf16, 0); });
  ExpectError(ErrorCode::kUsage, {"unknown geometry 'v9'", "deepseek-v3"},
              [] { FindGeometry("v9"); });
  g.kv_rank = 0;
  ExpectError(ErrorCode::kBadInput, {"kv_lora_rank"},
              [&] { Footprint(g, 8, CacheType::kBf16, 0); });
  g.kv_rank = 512;
  g.layers = 0;
  ExpectError(ErrorCode::kBadInput, {"layers"}, [&] { Footprint(g, 8, CacheType::kBf16, 0); });
}

class LogitsFileTest : public testing::Test {
 protected:
  TempDir dir_;
  std::string path_ = dir_.path() + "/logits.safetensors";

  /// Files and links in the directory.
  int64_t Names() const {
    const auto all = std::filesystem::directory_iterator(dir_.path());
    return std::distance(begin(all), end(all));
  }
};

TEST_F(LogitsFileTest, HoldsTheRows) {
  const std::vector<float> rows[] = {{1, 2, 3}, {4, 5, 6}};
  LogitsFile file(path_);
  file.Begin(2, 3);
  for (const auto& row : rows) file.Append(row);
  file.Finish();
  const std::string bytes = ReadWholeFile(path_);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(header % 8, 0u);
  EXPECT_EQ(bytes.size(), 8 + header + 24);
  EXPECT_NE(bytes.find(R"({"logits":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})"),
            std::string::npos);
  float last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - 4, 4);
  EXPECT_EQ(last, 6);
}

TEST_F(LogitsFileTest, LeavesNoHalfFileBehind) {
  {
    LogitsFile file(path_);
    file.Begin(2, 3);
    file.Append(std::vector<float>{1, 2, 3});
    ExpectError(ErrorCode::kUsage, {"2 rows", "1"}, [&] { file.Finish(); });
  }
  { LogitsFile never_begun(path_); }
  EXPECT_EQ(Names(), 0);
}

TEST_F(LogitsFileTest, KeepsAnOlderFileThatItDidNotReplace) {
  std::ofstream(path_) << "old";
  { LogitsFile file(path_); }
  EXPECT_EQ(ReadWholeFile(path_), "old");
  {
    LogitsFile file(path_);
    file.Begin(1, 3);
  }
  EXPECT_EQ(ReadWholeFile(path_), "old");
  EXPECT_EQ(Names(), 1);
}

TEST_F(LogitsFileTest, ReplacesAFileAtTheEndAndNotItsInode) {
  std::ofstream(path_) << "old";
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  std::ifstream reader(path_);  // as somebody who has the file mapped
  LogitsFile file(path_);
  file.Begin(1, 3);
  file.Append(std::vector<float>(3));
  EXPECT_EQ(ReadWholeFile(path_), "old");
  file.Finish();
  EXPECT_GT(std::filesystem::file_size(path_), 12u);
  EXPECT_EQ(std::filesystem::status(path_).permissions(), std::filesystem::perms::owner_all);
  std::string read;
  reader >> read;
  EXPECT_EQ(read, "old");
  EXPECT_EQ(Names(), 1);
}

TEST_F(LogitsFileTest, FollowsLinks) {
  const std::string link = dir_.path() + "/link";
  const std::string second = dir_.path() + "/second";
  std::filesystem::create_symlink("logits.safetensors", link);
  std::filesystem::create_symlink(link, second);
  for (int i = 0; i < 2; ++i) {  // the links lead nowhere, then to a file
    LogitsFile file(second);
    file.Begin(1, 1);
    file.Append(std::vector<float>(1));
    file.Finish();
    EXPECT_TRUE(std::filesystem::is_symlink(second));
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path_)));
  }
  EXPECT_EQ(Names(), 3);
  std::filesystem::create_symlink("loop", dir_.path() + "/loop");
  ExpectError(ErrorCode::kIo, {"/loop", "symbolic links"},
              [&] { LogitsFile file(dir_.path() + "/loop"); });
}

TEST_F(LogitsFileTest, RefusesWrongRows) {
  LogitsFile file(path_);
  ExpectError(ErrorCode::kUsage, {"logits file"}, [&] { file.Append(std::vector<float>(3)); });
  file.Begin(1, 3);
  ExpectError(ErrorCode::kUsage, {"3 values"}, [&] { file.Append(std::vector<float>(2)); });
  file.Append(std::vector<float>(3));
  ExpectError(ErrorCode::kUsage, {"logits file"}, [&] { file.Append(std::vector<float>(3)); });
}

TEST_F(LogitsFileTest, SaysWhatCannotBeWritten) {
  ExpectError(ErrorCode::kIo, {"/nowhere/", "No such file"},
              [&] { LogitsFile file(dir_.path() + "/nowhere/x"); });
  LogitsFile full("/dev/full");
  ExpectError(ErrorCode::kIo, {"/dev/full", "No space"}, [&] { full.Begin(1, 3); });
}

}  // namespace
}  // namespace mla
