#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: model";
// Bounds of the word cache: words that repeat are short and few.
constexpr size_t kMaxCachedWords = 1 << 16;
constexpr size_t kMaxCachedWordBytes = 128;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

uint64_t Mix(uint64_t value) {  // splitmix64's finaliser
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

uint64_t Candidate(uint32_t rank, size_t position) {
  return static_cast<uint64_t>(rank) << 32 | position;
}

/// The two sides of a merge: ["a", "b"], or "a b" in older files.
std::pair<std::string_view, std::string_view> MergeSides(const JsonValue& merge, size_t index) {
  if (merge.IsArray() && merge.items.size() == 2 && merge.items[0].IsString() &&
      merge.items[1].IsString()) {
    return {merge.items[0].string, merge.items[1].string};
  }
  if (merge.IsString()) {
    const std::string_view text = merge.string;
    const size_t space = text.find(' ');
    if (space != std::string_view::npos && text.find(' ', space + 1) == std::string_view::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  Fail(ErrorCode::kBadInput, "{}: merge {} must be a pair of strings", kWhere, index);
}

}  // namespace

Bpe::Bpe(const JsonValue& model) {
  const std::string type = StringOr(model, "type", "BPE", kWhere);
  if (type != "BPE") {
    Fail(ErrorCode::kUnsupported, "tokenizer.json: model \"{}\" is not supported; supported is BPE",
         type);
  }
  if (const JsonValue* dropout = model.Find("dropout")) {
    const bool zero = dropout->IsNull() ||
                      (dropout->kind == JsonValue::Kind::kInteger && dropout->integer == 0) ||
                      (dropout->kind == JsonValue::Kind::kNumber && dropout->number == 0.0);
    if (!zero) Fail(ErrorCode::kUnsupported, "{}: dropout is for training only", kWhere);
  }
  fuse_unk_ = BoolOr(model, "fuse_unk", false, kWhere);
  byte_fallback_ = BoolOr(model, "byte_fallback", false, kWhere);
  ignore_merges_ = BoolOr(model, "ignore_merges", false, kWhere);
  subword_prefix_ = StringOr(model, "continuing_subword_prefix", "", kWhere);
  word_suffix_ = StringOr(model, "end_of_word_suffix", "", kWhere);
  ReadVocab(model);
  ReadMerges(model);
  const std::string unk = StringOr(model, "unk_token", "", kWhere);
  if (!unk.empty()) {
    unk_id_ = TokenToId(unk);
    if (!unk_id_) {
      Fail(ErrorCode::kBadInput, "{}: unk_token \"{}\" is not in the vocabulary", kWhere, unk);
    }
  }
  if (byte_fallback_) {
    for (int byte = 0; byte < 256; ++byte) {
      byte_tokens_.push_back(TokenToId(fmt::format("<0x{:02X}>", byte)).value_or(-1));
    }
  }
}

void Bpe::ReadVocab(const JsonValue& model) {
  const JsonValue& vocab = Need(model, "vocab", kWhere);
  if (!vocab.IsObject()) {
    Fail(ErrorCode::kBadInput, "{}: \"vocab\" must be an object of token: id, found {}", kWhere,
         KindName(vocab.kind));
  }
  vocab_.reserve(vocab.keys.size());
  by_id_.reserve(vocab.keys.size());
  for (size_t i = 0; i < vocab.keys.size(); ++i) {
    const std::string& token = vocab.keys[i];
    if (vocab.items[i].kind != JsonValue::Kind::kInteger || vocab.items[i].integer < 0 ||
        vocab.items[i].integer > kMaxTokenId) {
      TokenIdOf(vocab.items[i], fmt::format("{}: token \"{}\"", kWhere, token));
    }
    const auto id = static_cast<int32_t>(vocab.items[i].integer);
    const auto [entry, is_new] = vocab_.emplace(token, id);
    if (!is_new) {
      Fail(ErrorCode::kBadInput, "{}: token \"{}\" is twice in the vocabulary, as {} and {}",
           kWhere, token, entry->second, id);
    }
    by_id_.emplace_back(id, &entry->first);
  }
  std::sort(by_id_.begin(), by_id_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 1; i < by_id_.size(); ++i) {
    if (by_id_[i].first == by_id_[i - 1].first) {
      Fail(ErrorCode::kBadInput, "{}: tokens \"{}\" and \"{}\" have the same id {}", kWhere,
           *by_id_[i - 1].second, *by_id_[i].second, by_id_[i].first);
    }
  }
}

void Bpe::ReadMerges(const JsonValue& model) {
  const JsonValue& merges = NeedArray(model, "merges", kWhere);
  merges_.resize(std::bit_ceil(std::max<size_t>(16, 2 * merges.items.size() + 2)));
  std::string merged;
  uint32_t rank = 0;
  for (size_t i = 0; i < merges.items.size(); ++i) {
    if (merges.items[i].IsString() && merges.items[i].string.starts_with("#version")) continue;
    const auto sides = MergeSides(merges.items[i], i);
    const std::string_view left = sides.first;
    const std::string_view right = sides.second;
    const auto known = [&](std::string_view token) {
      const auto id = TokenToId(token);
      if (!id) {
        Fail(ErrorCode::kBadInput,
             "{}: merge {} (\"{}\", \"{}\") needs token \"{}\", which is not "
             "in the vocabulary",
             kWhere, i, left, right, token);
      }
      return *id;
    };
    const int32_t left_id = known(left);
    const int32_t right_id = known(right);
    if (right.size() < subword_prefix_.size()) {
      Fail(ErrorCode::kBadInput, "{}: merge {}: \"{}\" is shorter than the subword prefix", kWhere,
           i, right);
    }
    merged.assign(left);
    merged += right.substr(subword_prefix_.size());
    merged_by_rank_.push_back(known(merged));
    AddMerge(left_id, right_id, rank++, merged_by_rank_.back());
  }
}

void Bpe::AddMerge(int32_t left, int32_t right, uint32_t rank, int32_t merged_id) {
  const uint64_t pair = PairKey(left, right);
  size_t slot = Mix(pair) & (merges_.size() - 1);
  while (merges_[slot].pair != kNoPair && merges_[slot].pair != pair) {
    slot = (slot + 1) & (merges_.size() - 1);
  }
  merges_[slot] = {pair, rank, merged_id};
}

const Bpe::MergeSlot* Bpe::FindMerge(int32_t left, int32_t right) const {
  const uint64_t pair = PairKey(left, right);
  size_t slot = Mix(pair) & (merges_.size() - 1);
  while (merges_[slot].pair != kNoPair) {
    if (merges_[slot].pair == pair) return &merges_[slot];
    slot = (slot + 1) & (merges_.size() - 1);
  }
  return nullptr;
}

std::optional<int32_t> Bpe::TokenToId(std::string_view token) const {
  const auto it = vocab_.find(token);
  if (it == vocab_.end()) return std::nullopt;
  return it->second;
}

const std::string* Bpe::IdToToken(int32_t id) const {
  const auto it =
      std::lower_bound(by_id_.begin(), by_id_.end(), id,
                       [](const auto& entry, int32_t value) { return entry.first < value; });
  return it != by_id_.end() && it->first == id ? it->second : nullptr;
}

void Bpe::Encode(std::string_view piece, BpeScratch* scratch, std::vector<int32_t>* ids) const {
  if (piece.empty()) return;
  if (ignore_merges_) {
    if (const auto id = TokenToId(piece)) {
      ids->push_back(*id);
      return;
    }
  }
  const bool cacheable = piece.size() <= kMaxCachedWordBytes;
  if (cacheable) {
    const auto it = scratch->words.find(piece);
    if (it != scratch->words.end()) {
      ids->insert(ids->end(), it->second.begin(), it->second.end());
      return;
    }
  }
  SplitIntoSymbols(piece, scratch);
  Merge(scratch);
  const size_t first = ids->size();
  for (const BpeScratch::Symbol& symbol : scratch->symbols) {
    if (symbol.alive) ids->push_back(symbol.id);
  }
  if (cacheable && scratch->words.size() < kMaxCachedWords) {
    scratch->words.emplace(
        piece, std::vector<int32_t>(ids->begin() + static_cast<int64_t>(first), ids->end()));
  }
}

void Bpe::SplitIntoSymbols(std::string_view piece, BpeScratch* scratch) const {
  auto& symbols = scratch->symbols;
  symbols.clear();
  if (piece.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    Fail(ErrorCode::kBadInput, "a word of {} bytes is too long to tokenise", piece.size());
  }
  const auto add = [&](int32_t id) {
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1, true});
  };
  bool unk_pending = false;
  std::string decorated;
  for (size_t position = 0; position < piece.size();) {
    const size_t size = CharAt(piece, position).size;
    const bool is_last = position + size == piece.size();
    std::string_view symbol = piece.substr(position, size);
    if ((position > 0 && !subword_prefix_.empty()) || (is_last && !word_suffix_.empty())) {
      decorated = (position > 0 ? subword_prefix_ : "") + std::string(symbol) +
                  (is_last ? word_suffix_ : "");
      symbol = decorated;
    }
    position += size;
    if (const auto id = TokenToId(symbol)) {
      if (unk_pending) add(*unk_id_);
      unk_pending = false;
      add(*id);
      continue;
    }
    if (byte_fallback_ && std::all_of(symbol.begin(), symbol.end(), [&](char c) {
          return byte_tokens_[static_cast<unsigned char>(c)] >= 0;
        })) {
      for (const char c : symbol) add(byte_tokens_[static_cast<unsigned char>(c)]);
      continue;
    }
    if (!unk_id_) continue;
    if (unk_pending && !fuse_unk_) add(*unk_id_);
    unk_pending = true;
  }
  if (unk_pending) add(*unk_id_);
  if (!symbols.empty()) symbols.back().next = -1;
}

void Bpe::Merge(BpeScratch* scratch) const {
  auto& symbols = scratch->symbols;
  auto& heap = scratch->heap;
  heap.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (const MergeSlot* merge = FindMerge(symbols[i].id, symbols[i + 1].id)) {
      heap.push_back(Candidate(merge->rank, i));
    }
  }
  constexpr std::greater<uint64_t> kLater;  // the front is the lowest rank, there the leftmost
  std::make_heap(heap.begin(), heap.end(), kLater);
  const auto consider = [&](int32_t left, int32_t right) {
    const MergeSlot* merge =
        FindMerge(symbols[static_cast<size_t>(left)].id, symbols[static_cast<size_t>(right)].id);
    if (merge == nullptr) return;
    heap.push_back(Candidate(merge->rank, static_cast<size_t>(left)));
    std::push_heap(heap.begin(), heap.end(), kLater);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), kLater);
    const auto position = static_cast<int32_t>(heap.back() & 0xffffffffu);
    const int32_t merged_id = merged_by_rank_[heap.back() >> 32];
    heap.pop_back();
    BpeScratch::Symbol& left = symbols[static_cast<size_t>(position)];
    if (!left.alive || left.next < 0) continue;
    BpeScratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    // The reference only compares the merged token here, so an outdated candidate whose pair has
    // changed into another pair of the same token still counts.
    const MergeSlot* merge = FindMerge(left.id, right.id);
    if (merge == nullptr || merge->merged_id != merged_id) continue;
    left.id = merged_id;
    right.alive = false;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = position;
    if (left.previous >= 0) consider(left.previous, position);
    if (left.next >= 0) consider(position, left.next);
  }
}

}  // namespace mla
