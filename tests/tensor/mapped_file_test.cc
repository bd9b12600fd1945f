#include "tensor/mapped_file.h"

#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace mla {
namespace {

TEST(MappedFile, HoldsTheBytes) {
  const TempDir dir;
  const std::string path = dir.File("file");
  std::ofstream(path) << "hello";
  MappedFile file(path);
  ASSERT_EQ(file.size(), 5);
  EXPECT_EQ(std::memcmp(file.data(), "hello", 5), 0);
  const MappedFile moved(std::move(file));
  EXPECT_EQ(moved.size(), 5);
  EXPECT_EQ(moved.path(), path);
}

TEST(MappedFile, EmptyAndMissing) {
  const TempDir dir;
  std::ofstream(dir.File("empty"));
  EXPECT_EQ(MappedFile(dir.File("empty")).size(), 0);
  ExpectError(ErrorCode::kNotFound, {"none", "cannot be opened"},
              [&] { MappedFile(dir.File("none")); });
  ExpectError(ErrorCode::kNotFound, {"expected a regular file"}, [&] { MappedFile(dir.File("")); });
}

}  // namespace
}  // namespace mla
