#include "io/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

std::string Tensor(const std::string& name, const std::string& bytes = "1234") {
  return SafetensorsBuilder().Add(name, "F32", {1}, bytes).Bytes();
}

std::string Index(const std::string& weight_map) {
  return R"({"metadata": {"total_size": 8}, "weight_map": {)" + weight_map + "}}";
}

constexpr char kIndex[] = "model.safetensors.index.json";

void ExpectOpenFails(const TempDir& dir, ErrorCode code, std::initializer_list<const char*> parts) {
  ExpectError(code, parts, [&] { Checkpoint::Open(dir.path()); });
}

TEST(Checkpoint, SingleFile) {
  TempDir dir;
  dir.Write("other.safetensors", Tensor("only"));
  EXPECT_NE(Checkpoint::Open(dir.path())->Find("only"), nullptr);
  // model.safetensors is the model, whatever lies beside it.
  dir.Write("model.safetensors", Tensor("a"));
  const auto checkpoint = Checkpoint::Open(dir.path());
  const StoredTensor* a = checkpoint->Find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::kF32);
  EXPECT_EQ(a->bytes, 4);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(a->data), 4), "1234");
  EXPECT_EQ(checkpoint->Find("only"), nullptr);
  EXPECT_EQ(checkpoint->file_bytes(), static_cast<int64_t>(Tensor("a").size()));
}

TEST(Checkpoint, Shards) {
  TempDir dir;
  dir.Write("m-1.safetensors", Tensor("a", "aaaa"));
  dir.Write("m-2.safetensors", Tensor("b", "bbbb"));
  dir.Write(kIndex, Index(R"("a": "m-1.safetensors", "b": "m-2.safetensors")"));
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_EQ(checkpoint->tensors().size(), 2u);
  const StoredTensor* b = checkpoint->Find("b");
  EXPECT_EQ(*b->data, 'b');
  EXPECT_TRUE(
      checkpoint->files()[static_cast<size_t>(b->shard)].path().ends_with("m-2.safetensors"));
}

TEST(Checkpoint, StaleIndexIsHarmless) {
  TempDir dir;
  dir.Write("m-1.safetensors", Tensor("a"));
  dir.Write("m-2.safetensors", Tensor("b"));
  // b is in the other shard.
  dir.Write(kIndex, Index(R"("a": "m-2.safetensors", "b": "m-1.safetensors")"));
  EXPECT_EQ(Checkpoint::Open(dir.path())->tensors().size(), 2u);
  // The index does not know b.
  dir.Write("m-2.safetensors",
            SafetensorsBuilder().Add("b", "F32", {1}, "1234").Add("c", "F32", {1}, "1234").Bytes());
  dir.Write(kIndex, Index(R"("a": "m-1.safetensors", "c": "m-2.safetensors")"));
  EXPECT_NE(Checkpoint::Open(dir.path())->Find("b"), nullptr);
}

TEST(Checkpoint, TensorInTwoShards) {
  TempDir dir;
  dir.Write("m-1.safetensors", Tensor("a", "aaaa"));
  dir.Write("m-2.safetensors",
            SafetensorsBuilder().Add("a", "F32", {1}, "AAAA").Add("b", "F32", {1}, "bbbb").Bytes());
  // The index says which one counts ...
  for (const char* shard : {"m-1.safetensors", "m-2.safetensors"}) {
    dir.Write("m-0.safetensors", Tensor("z"));
    dir.Write(kIndex, Index(std::string(R"("z": "m-1.safetensors", "b": "m-2.safetensors",
                                           "y": "m-0.safetensors", "a": ")") +
                            shard + "\""));
    dir.Write(
        "m-0.safetensors",
        SafetensorsBuilder().Add("y", "F32", {1}, "1234").Add("z", "F32", {1}, "1234").Bytes());
    EXPECT_EQ(*Checkpoint::Open(dir.path())->Find("a")->data,
              std::string(shard) == "m-1.safetensors" ? 'a' : 'A');
  }
  // ... or there is no telling.
  dir.Write("m-1.safetensors",
            SafetensorsBuilder().Add("a", "F32", {1}, "aaaa").Add("c", "F32", {1}, "cccc").Bytes());
  dir.Write(kIndex, Index(R"("c": "m-1.safetensors", "b": "m-2.safetensors")"));
  ExpectOpenFails(dir, ErrorCode::kBadInput, {"tensor a", "m-1.safetensors as well"});
}

TEST(Checkpoint, NothingThere) {
  ExpectError(ErrorCode::kNotFound, {"/no/such/directory", "no such directory"},
              [] { Checkpoint::Open("/no/such/directory"); });
  TempDir dir;
  ExpectOpenFails(dir, ErrorCode::kNotFound, {"no weights", "model.safetensors"});
  dir.Write("file", "x");
  ExpectError(ErrorCode::kNotFound, {"expected a model directory"},
              [&] { Checkpoint::Open(dir.File("file")); });
  dir.Write("a.safetensors", Tensor("a"));
  dir.Write("b.safetensors", Tensor("b"));
  ExpectOpenFails(dir, ErrorCode::kNotFound, {"several", "a.safetensors, b.safetensors", "index"});
  std::filesystem::create_directory(dir.File("model.safetensors"));
  ExpectOpenFails(dir, ErrorCode::kNotFound, {"model.safetensors", "regular file"});
}

TEST(Checkpoint, MissingShardsAreNamedTogether) {
  TempDir dir;
  dir.Write("m-1.safetensors", Tensor("a"));
  dir.Write(kIndex, Index(R"("a": "m-1.safetensors", "b": "m-2.safetensors",
                             "c": "m-3.safetensors")"));
  ExpectOpenFails(dir, ErrorCode::kNotFound,
                  {kIndex, "m-2.safetensors, m-3.safetensors", "download complete"});
}

TEST(Checkpoint, ShardOutsideOfTheDirectory) {
  TempDir dir;
  std::filesystem::create_directory(dir.File("model"));
  dir.Write("secret.safetensors", Tensor("a"));
  const std::string model = dir.File("model");
  for (const std::string& shard :
       {std::string("../secret.safetensors"), dir.File("secret.safetensors"), std::string(".."),
        std::string("."), std::string(), std::string("x/../../secret.safetensors"),
        std::string("..\\\\secret.safetensors"), std::string("a\\u0000b")}) {
    dir.Write(std::string("model/") + kIndex, Index(fmt::format(R"("a": "{}")", shard)));
    ExpectError(ErrorCode::kBadInput, {"plain file name in the model's directory"},
                [&] { Checkpoint::Open(model); });
  }
  // A link is the user's own doing: download caches consist of them.
  std::filesystem::create_symlink(dir.File("secret.safetensors"), model + "/link.safetensors");
  dir.Write(std::string("model/") + kIndex, Index(R"("a": "link.safetensors")"));
  EXPECT_NE(Checkpoint::Open(model)->Find("a"), nullptr);
}

TEST(Checkpoint, TensorInNoShard) {
  TempDir dir;
  dir.Write("m-1.safetensors", Tensor("a"));
  dir.Write(kIndex, Index(R"("a": "m-1.safetensors", "b": "m-1.safetensors")"));
  ExpectOpenFails(dir, ErrorCode::kBadInput, {"tensors that no shard holds: b (m-1.safetensors)"});
}

TEST(Checkpoint, MalformedIndex) {
  TempDir dir;
  dir.Write("model.safetensors", Tensor("a"));
  const auto bad = [&](const std::string& text, std::initializer_list<const char*> parts) {
    dir.Write(kIndex, text);
    ExpectOpenFails(dir, ErrorCode::kBadInput, parts);
  };
  bad("", {kIndex, "not valid JSON"});
  bad("{}", {"weight_map is missing"});
  bad(R"({"weight_map": []})", {"weight_map is []", "an object"});
  bad(R"({"weight_map": {}})", {"names no shard"});
  bad(R"({"weight_map": {"a": 1}})", {"weight_map.a is 1", "a string"});
  bad(R"({"weight_map": {"a": "model.safetensors", "a": "model.safetensors"}})",
      {"\"a\" appears twice"});
  bad(std::string("{\"weight_map\":") + std::string(5000, '['), {"nested"});
}

TEST(Checkpoint, DamagedShardIsNamed) {
  TempDir dir;
  dir.Write("m-1.safetensors", Tensor("a").substr(0, 30));
  dir.Write(kIndex, Index(R"("a": "m-1.safetensors")"));
  ExpectOpenFails(dir, ErrorCode::kBadInput, {"m-1.safetensors", "truncated"});
  dir.Write("m-1.safetensors", "");
  ExpectOpenFails(dir, ErrorCode::kBadInput, {"m-1.safetensors", "truncated"});
}

TEST(Checkpoint, OddThingsInPlaceOfFiles) {
  TempDir dir;
  ASSERT_EQ(symlink("gone", dir.File("model.safetensors").c_str()), 0);
  ExpectOpenFails(dir, ErrorCode::kNotFound, {"model.safetensors", "a link whose target is gone"});
  ASSERT_EQ(unlink(dir.File("model.safetensors").c_str()), 0);
  // Opening a FIFO for reading must not wait for a writer.
  ASSERT_EQ(mkfifo(dir.File("model.safetensors").c_str(), 0600), 0);
  ExpectOpenFails(dir, ErrorCode::kNotFound, {"model.safetensors", "expected a regular file"});
  dir.Write("file", "x");
  ExpectError(ErrorCode::kNotFound, {"is not a directory; expected a model directory"},
              [&] { Checkpoint::Open(dir.File("file")); });
}

}  // namespace
}  // namespace mla
