// Byte-pair encoding: the "model" component of tokenizer.json.
// Called by: tokenizer. Thread-safety: immutable after parsing; a BpeScratch belongs to one call.
#ifndef MLA_TOKENIZER_BPE_H_
#define MLA_TOKENIZER_BPE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/tokenizer_json.h"

namespace mla {

/// Working memory of one encoding call, with the results for the words that it has already seen.
/// The views point into the text being encoded.
struct BpeScratch {
  struct Symbol {
    int32_t id;
    int32_t previous;  // index, -1: none
    int32_t next;      // index, -1: none
    bool alive;
  };
  std::vector<Symbol> symbols;
  std::vector<uint64_t> heap;  // merges to try: rank << 32 | index of the left symbol
  std::unordered_map<std::string_view, std::vector<int32_t>> words;
};

class Bpe {
 public:
  /// Throws kBadInput for malformed members, duplicate tokens or ids and merges of unknown tokens,
  /// kUnsupported for another model type.
  explicit Bpe(const JsonValue& model);

  /// Appends the ids of one piece, O(n log n) in its characters.
  void Encode(std::string_view piece, BpeScratch* scratch, std::vector<int32_t>* ids) const;

  std::optional<int32_t> TokenToId(std::string_view token) const;
  /// nullptr if no token has this id. Valid as long as the model.
  const std::string* IdToToken(int32_t id) const;
  int64_t token_count() const { return static_cast<int64_t>(vocab_.size()); }
  int64_t highest_id() const { return by_id_.empty() ? -1 : by_id_.back().first; }

 private:
  struct StringHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct MergeSlot {
    uint64_t pair = kNoPair;
    uint32_t rank = 0;
    int32_t merged_id = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  void ReadVocab(const JsonValue& model);
  void ReadMerges(const JsonValue& model);
  void AddMerge(int32_t left, int32_t right, uint32_t rank, int32_t merged_id);
  const MergeSlot* FindMerge(int32_t left, int32_t right) const;
  void SplitIntoSymbols(std::string_view piece, BpeScratch* scratch) const;
  void Merge(BpeScratch* scratch) const;

  std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>> vocab_;
  std::vector<std::pair<int32_t, const std::string*>> by_id_;  // ascending
  std::vector<MergeSlot> merges_;                              // open addressing, a power of two
  std::vector<int32_t> merged_by_rank_;
  std::vector<int32_t> byte_tokens_;  // <0x00>..<0xFF>, -1: absent
  std::optional<int32_t> unk_id_;
  std::string subword_prefix_;
  std::string word_suffix_;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
};

}  // namespace mla

#endif  // MLA_TOKENIZER_BPE_H_
