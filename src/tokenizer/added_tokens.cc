#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/check.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: added_tokens";

AddedToken ParseToken(const JsonValue& entry, size_t index) {
  AddedToken token;
  const std::string where = fmt::format("{}[{}]", kWhere, index);
  token.content = NeedString(entry, "content", where);
  token.id = TokenIdOf(Need(entry, "id", where), where);
  token.special = BoolOr(entry, "special", false, where);
  token.normalized = BoolOr(entry, "normalized", !token.special, where);
  token.single_word = BoolOr(entry, "single_word", false, where);
  token.lstrip = BoolOr(entry, "lstrip", false, where);
  token.rstrip = BoolOr(entry, "rstrip", false, where);
  return token;
}

}  // namespace

AddedTokens::AddedTokens(const JsonValue* component, const Bpe& model,
                         const Normalizer* normalizer) {
  if (component == nullptr || component->IsNull()) return;
  if (!component->IsArray()) {
    Fail(ErrorCode::kBadInput, "{}: must be an array, found {}", kWhere, KindName(component->kind));
  }
  std::unordered_map<int32_t, std::string> declared;
  for (size_t i = 0; i < component->items.size(); ++i) {
    AddedToken token = ParseToken(component->items[i], i);
    const auto [entry, is_new] = declared.emplace(token.id, token.content);
    if (!is_new && entry->second != token.content) {
      Fail(ErrorCode::kBadInput, "{}: \"{}\" and \"{}\" have the same id {}", kWhere, entry->second,
           token.content, token.id);
    }
    if (!token.content.empty()) Insert(std::move(token), model);
  }
  for (auto& [id, token] : by_id_) {
    const bool changes = token.normalized && normalizer != nullptr;
    token.text = changes ? normalizer->Apply(token.content) : token.content;
    (token.normalized ? normalized_ : raw_).Add(token.text, id);
  }
}

void AddedTokens::Insert(AddedToken token, const Bpe& model) {
  if (token.special) special_[token.content] = true;
  const int64_t size = model.token_count();
  if (const auto known = TokenToId(token.content)) {
    token.id = *known;
  } else if (const auto in_model = model.TokenToId(token.content)) {
    token.id = *in_model;
  } else {
    int64_t next = size;
    if (!by_id_.empty() && (highest_id() >= size || size == 0)) next = highest_id() + 1;
    if (next > kMaxTokenId) Fail(ErrorCode::kBadInput, "{}: too many tokens", kWhere);
    token.id = static_cast<int32_t>(next);
  }
  ids_[token.content] = token.id;
  by_id_[token.id] = std::move(token);
}

PreTokenized AddedTokens::Extract(std::string_view text, const Normalizer* normalizer,
                                  bool parse_special) const {
  std::vector<Piece> raw_pieces;
  Split(text, raw_, parse_special, 0, true, &raw_pieces);
  PreTokenized out;
  if (normalizer == nullptr) {
    out.text = text;
    if (normalized_.empty()) {
      out.pieces = std::move(raw_pieces);
      return out;
    }
  }
  for (const Piece& piece : raw_pieces) {
    if (piece.token >= 0) {
      out.pieces.push_back(piece);
      continue;
    }
    const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
    if (normalizer == nullptr) {
      Split(part, normalized_, parse_special, piece.begin, piece.at_start, &out.pieces);
      continue;
    }
    const std::string changed = normalizer->Apply(part);
    const size_t offset = out.text.size();
    out.text += changed;
    Split(changed, normalized_, parse_special, offset, piece.at_start, &out.pieces);
  }
  return out;
}

void AddedTokens::Split(std::string_view text, const Matcher& matcher, bool parse_special,
                        size_t offset, bool at_start, std::vector<Piece>* pieces) const {
  size_t from = 0;  // end of what is already in pieces
  const auto push_text = [&](size_t end) {
    if (from < end) pieces->push_back({offset + from, offset + end, -1, at_start && from == 0});
  };
  for (size_t position = 0; position < text.size() && !matcher.empty();) {
    size_t length = 0;
    const int32_t id = matcher.Longest(text, position, &length);
    if (id < 0) {
      ++position;
      continue;
    }
    const AddedToken& token = by_id_.at(id);
    size_t begin = position;
    size_t end = position + length;
    position = end;  // a match that is turned down still hides what overlaps it
    if (!parse_special && IsSpecial(token.content)) continue;
    if (token.single_word) {
      const bool left = begin > 0 && IsWordChar(LastChar(text.substr(0, begin)));
      const bool right = end < text.size() && IsWordChar(CharAt(text, end).code);
      if (left || right) continue;
    }
    while (token.lstrip && begin > from) {
      const char32_t last = LastChar(text.substr(0, begin));
      if (!IsWhitespace(last)) break;
      begin -= last < 0x80 ? 1 : last < 0x800 ? 2 : 3;
    }
    while (token.rstrip && end < text.size()) {
      const Utf8Char c = CharAt(text, end);
      if (!IsWhitespace(c.code)) break;
      end += c.size;
    }
    push_text(begin);
    pieces->push_back({offset + begin, offset + end, id, at_start && begin == 0});
    from = std::max(from, end);
  }
  push_text(text.size());
}

std::optional<int32_t> AddedTokens::TokenToId(std::string_view token) const {
  const auto it = ids_.find(std::string(token));
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

const AddedToken* AddedTokens::Find(int32_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &it->second;
}

bool AddedTokens::IsSpecial(std::string_view token) const {
  return special_.contains(std::string(token));
}

void AddedTokens::Matcher::Add(std::string_view content, int32_t token) {
  if (content.empty()) return;
  if (nodes_.empty()) nodes_.emplace_back();
  first_bytes_[static_cast<unsigned char>(content.front())] = true;
  uint32_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    auto& children = nodes_[node].children;
    const auto it = std::find_if(children.begin(), children.end(),
                                 [byte](const auto& child) { return child.first == byte; });
    if (it != children.end()) {
      node = it->second;
      continue;
    }
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    children.emplace_back(byte, fresh);
    nodes_.emplace_back();
    node = fresh;
  }
  if (nodes_[node].token < 0) nodes_[node].token = token;
}

int32_t AddedTokens::Matcher::Longest(std::string_view text, size_t position,
                                      size_t* length) const {
  if (!first_bytes_[static_cast<unsigned char>(text[position])]) return -1;
  int32_t token = -1;
  uint32_t node = 0;
  for (size_t i = position; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto& children = nodes_[node].children;
    const auto it = std::find_if(children.begin(), children.end(),
                                 [byte](const auto& child) { return child.first == byte; });
    if (it == children.end()) break;
    node = it->second;
    if (nodes_[node].token >= 0) {
      token = nodes_[node].token;
      *length = i + 1 - position;
    }
  }
  return token;
}

}  // namespace mla
