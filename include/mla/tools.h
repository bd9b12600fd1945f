// Pieces that programs around the engine need: a tokenizer alone, a logits file, cache footprints.
// Called by: applications (the command line). Thread-safety: a TextCodec may be shared by threads,
// a LogitsFile belongs to one; the rest is stateless.
#ifndef MLA_TOOLS_H_
#define MLA_TOOLS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mla/error.h"
#include "mla/options.h"

namespace mla {

/// Text <-> ids without a model: a directory that holds only tokenizer files is enough.
class TextCodec {
 public:
  /// Throws kNotFound or kBadInput naming the file, kUnsupported naming the feature.
  static TextCodec Load(const std::string& directory);

  /// `add_special`: with the post-processor's tokens (BOS ...). `parse_special`: special tokens
  /// that occur in the text become their ids; otherwise they are ordinary text. Each maximal
  /// invalid UTF-8 part of `text` counts as U+FFFD.
  std::vector<int32_t> Encode(std::string_view text, bool add_special = true,
                              bool parse_special = true) const;
  /// Valid UTF-8: bytes that do not form a character become U+FFFD. Throws kBadInput for an id out
  /// of range.
  std::string Decode(std::span<const int32_t> tokens, bool skip_special = false) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

/// Writes one safetensors file with the tensor `logits` F32 [rows, vocab], row by row, so that the
/// whole matrix is never in memory. The rows go to a temporary file in the same directory, which
/// takes the name at the end: until then a file of that name stays as it is, and so does the inode
/// that somebody has mapped. What is no regular file (a FIFO, /dev/stdout) is written directly.
class LogitsFile {
 public:
  /// Checks that `path` can be written, links followed; changes nothing. Throws kIo naming it.
  explicit LogitsFile(const std::string& path);
  /// Without Finish: removes the temporary file.
  ~LogitsFile();
  LogitsFile(const LogitsFile&) = delete;
  LogitsFile& operator=(const LogitsFile&) = delete;

  /// Opens the temporary file and writes the header. Throws kIo.
  void Begin(int64_t rows, int64_t vocab);
  /// Appends one row [vocab]. Throws kIo; kUsage for a wrong width or a row too many.
  void Append(std::span<const float> row);
  /// Checks that all rows came, closes and renames. Throws kIo, kUsage.
  void Finish();

 private:
  void OpenTemporary();
  void Write(const void* data, size_t size);

  std::string path_;
  std::string target_;     // the file that `path_` leads to; empty: written directly
  std::string temporary_;  // to be removed or renamed; empty: none
  unsigned mode_ = 0;      // permissions of the file to be replaced
  int fd_ = -1;
  int64_t rows_ = 0, vocab_ = 0, written_ = 0;
  bool begun_ = false;
};

/// Attention widths of a model in the symbols of docs/mla.md.
struct Geometry {
  std::string name;       ///< "deepseek-v3", or "custom"
  int64_t layers = 27;    ///< attention blocks
  int64_t heads = 16;     ///< H
  int64_t nope = 128;     ///< n
  int64_t rope = 64;      ///< r
  int64_t v_dim = 128;    ///< v
  int64_t kv_rank = 512;  ///< Rk
};

/// Geometries of published models, in a fixed order.
const std::vector<Geometry>& KnownGeometries();
/// One of them by name. Throws kUsage listing the names.
const Geometry& FindGeometry(const std::string& name);

/// What one caching scheme costs.
struct FootprintRow {
  std::string scheme;            ///< "MHA", "GQA-8", "MQA", "MLA", "MLA decompressed"
  int64_t elements = 0;          ///< per token and layer
  int64_t bytes = 0;             ///< per token and layer
  int64_t bytes_all_layers = 0;  ///< per token
  double ratio = 0;              ///< elements / MLA's elements
  int64_t tokens_in_budget = 0;  ///< context that the budget holds; 0 without a budget
};

/// MHA, GQA, MQA, MLA and MLA's decompressed cache, in this order. MHA caches keys of width n and
/// values of width v per head, H(n+v); GQA the same for `kv_heads` groups, MQA for one; MLA Rk+r;
/// decompressed H(n+r+v). With kInt8 the latent row has its scale besides, MHA, GQA and MQA are
/// counted with one byte per element, and decompressed, which has no int8, with two. Throws kUsage
/// if kv_heads does not divide the heads, kBadInput naming a width that is not positive or a
/// product that overflows.
std::vector<FootprintRow> Footprint(const Geometry& geometry, int64_t kv_heads, CacheType dtype,
                                    int64_t budget_bytes);

/// Threads that LoadOptions::threads = 0 means on this machine.
int DefaultThreads();

}  // namespace mla

#endif  // MLA_TOOLS_H_
