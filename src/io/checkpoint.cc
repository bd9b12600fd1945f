#include "io/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/check.h"
#include "io/json_file.h"
#include "io/safetensors.h"

namespace mla {
namespace {

namespace fs = std::filesystem;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr size_t kMaxListed = 20;

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxListed); ++i) {
    text += (i == 0 ? "" : ", ") + Printable(names[i]);
  }
  if (names.size() > kMaxListed) text += fmt::format(" and {} more", names.size() - kMaxListed);
  return text;
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A shard is a plain file name in the model's own directory; what it links to is the user's affair.
void CheckShardName(const std::string& shard, const std::string& tensor, const std::string& index) {
  const bool plain = !shard.empty() && shard != "." && shard != ".." &&
                     shard.find_first_of(std::string("/\\\0", 3)) == std::string::npos;
  if (!plain) {
    Fail(ErrorCode::kBadInput,
         "{}: {} is said to be in '{}'; expected a plain file name in the model's directory", index,
         Printable(tensor), Printable(shard));
  }
}

std::string SingleFile(const fs::path& directory) {
  std::error_code ignored;
  // Also a link whose target is gone: opening it says what is wrong.
  if (fs::symlink_status(directory / kSingleFile, ignored).type() != fs::file_type::not_found) {
    return kSingleFile;
  }
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors") found.push_back(it->path().filename().string());
  }
  std::sort(found.begin(), found.end());
  if (found.empty()) {
    Fail(ErrorCode::kNotFound, "{}: no weights: expected {}, or {} with its shards",
         directory.string(), kSingleFile, kIndexFile);
  }
  if (found.size() > 1) {
    Fail(ErrorCode::kNotFound, "{}: several weight files ({}) and no {}; add the index",
         directory.string(), Listed(found), kIndexFile);
  }
  return found[0];
}

}  // namespace

std::shared_ptr<const Checkpoint> Checkpoint::Open(const std::string& directory) {
  std::error_code ignored;
  const fs::path root(directory);
  if (!fs::is_directory(root, ignored)) {
    Fail(ErrorCode::kNotFound, "{}: {}; expected a model directory", directory,
         Exists(root) ? "is not a directory" : "no such directory");
  }
  const std::string index = (root / kIndexFile).string();
  std::vector<std::pair<std::string, std::string>> map;  // tensor, shard
  std::set<std::string> shards;
  if (Exists(index)) {
    map = JsonObject::Read(index, kMaxIndexBytes).Object("weight_map").StringEntries();
    for (const auto& [tensor, shard] : map) {
      CheckShardName(shard, tensor, index);
      shards.insert(shard);
    }
    if (shards.empty()) Fail(ErrorCode::kBadInput, "{}: weight_map names no shard", index);
  } else {
    shards.insert(SingleFile(root));
  }
  std::vector<std::string> missing;
  for (const std::string& shard : shards) {
    if (!Exists(root / shard)) missing.push_back(shard);
  }
  if (!missing.empty() && map.empty()) {
    Fail(ErrorCode::kNotFound, "{}: cannot be opened; is it a link whose target is gone?",
         (root / missing[0]).string());
  }
  if (!missing.empty()) {
    Fail(ErrorCode::kNotFound,
         "{}: shards named by the index are missing: {}; is the download "
         "complete?",
         index, Listed(missing));
  }

  auto checkpoint = std::make_shared<Checkpoint>();
  std::map<std::string, std::string> home(map.begin(), map.end());
  for (const std::string& shard : shards)
    checkpoint->AddShard((root / shard).string(), shard, home);
  // The shards decide what there is: an index that knows less, or names the wrong shard, is only
  // stale. A tensor that no shard holds is a fault.
  std::vector<std::string> lost;
  for (const auto& [tensor, shard] : map) {
    if (checkpoint->Find(tensor) == nullptr) lost.push_back(tensor + " (" + shard + ")");
  }
  if (!lost.empty()) {
    Fail(ErrorCode::kBadInput, "{}: tensors that no shard holds: {}; is the download complete?",
         index, Listed(lost));
  }
  return checkpoint;
}

void Checkpoint::AddShard(const std::string& path, const std::string& shard,
                          const std::map<std::string, std::string>& home) {
  files_.emplace_back(path);
  const MappedFile& file = files_.back();
  const std::span<const uint8_t> bytes(file.data(), static_cast<size_t>(file.size()));
  for (SafetensorsEntry& entry : ParseSafetensors(bytes, path)) {
    StoredTensor tensor;
    tensor.dtype = entry.dtype;
    tensor.shape = std::move(entry.shape);
    tensor.data = file.data() + entry.offset;
    tensor.bytes = entry.bytes;
    tensor.shard = static_cast<int>(files_.size()) - 1;
    const auto [it, added] = tensors_.try_emplace(entry.name, tensor);
    if (added) continue;
    const auto chosen = home.find(entry.name);
    const std::string& other = files_[static_cast<size_t>(it->second.shard)].path();
    if (chosen != home.end() && chosen->second == shard) {
      it->second = std::move(tensor);
    } else if (chosen == home.end() ||
               std::filesystem::path(other).filename().string() != chosen->second) {
      Fail(ErrorCode::kBadInput, "{}: tensor {} is in {} as well, and the index does not say which",
           path, Printable(entry.name), other);
    }
  }
}

const StoredTensor* Checkpoint::Find(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

int64_t Checkpoint::file_bytes() const {
  int64_t bytes = 0;
  for (const MappedFile& file : files_) bytes += file.size();
  return bytes;
}

}  // namespace mla
