// The tensors of a model directory, whatever number of safetensors shards they are in.
// Called by: model/loader, cli (inspect, tests). Thread-safety: immutable after Open.
#ifndef MLA_IO_CHECKPOINT_H_
#define MLA_IO_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/mapped_file.h"

namespace mla {

/// One tensor as stored. `data` points into a mapping and may be misaligned for `dtype`.
struct StoredTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const uint8_t* data = nullptr;
  int64_t bytes = 0;
  int shard = 0;  ///< index into Checkpoint::files()
};

class Checkpoint {
 public:
  /// Opens model.safetensors.index.json with its shards, or model.safetensors, or the single
  /// *.safetensors file in the directory. The shards decide what there is: tensors that the index
  /// does not know, or puts into another of its shards, are found all the same. Throws kNotFound
  /// (no such directory, no weights, a shard is missing), kBadInput (a malformed file, a shard
  /// outside of the directory, a tensor in no shard, one in two shards), kUnsupported (unknown
  /// dtype).
  static std::shared_ptr<const Checkpoint> Open(const std::string& directory);

  /// Null if there is no such tensor.
  const StoredTensor* Find(const std::string& name) const;
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::vector<MappedFile>& files() const { return files_; }
  int64_t file_bytes() const;  ///< sum of the files' sizes

 private:
  // `home`: tensor -> shard, as the index says; decides between shards that hold the same name.
  void AddShard(const std::string& path, const std::string& shard,
                const std::map<std::string, std::string>& home);

  std::map<std::string, StoredTensor> tensors_;
  std::vector<MappedFile> files_;
};

}  // namespace mla

#endif  // MLA_IO_CHECKPOINT_H_
