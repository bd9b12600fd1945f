#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTextBytes = size_t{1} << 30;
constexpr uintmax_t kMaxFileBytes = uintmax_t{1} << 30;

std::string ReadFile(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error || !fs::is_regular_file(path, error)) {
    Fail(ErrorCode::kNotFound, "cannot read {}: not a regular file", path.string());
  }
  if (size > kMaxFileBytes) {
    Fail(ErrorCode::kBadInput, "{}: {} bytes, at most {} are allowed", path.string(), size,
         kMaxFileBytes);
  }
  std::ifstream stream(path, std::ios::binary);
  std::string content(static_cast<size_t>(size), '\0');
  if (!stream || !stream.read(content.data(), static_cast<std::streamsize>(size))) {
    Fail(ErrorCode::kNotFound, "cannot read {}: check its permissions", path.string());
  }
  return content;
}

const JsonValue& RootObject(const JsonValue& root, std::string_view what) {
  if (!root.IsObject()) {
    Fail(ErrorCode::kBadInput, "{}: must hold an object, found {}", what, KindName(root.kind));
  }
  return root;
}

/// The text of a special token in tokenizer_config.json: a string or an object with "content".
std::string NamedToken(const JsonValue& config, const char* key) {
  constexpr std::string_view kWhere = "tokenizer_config.json";
  const JsonValue* value = config.Find(key);
  if (value == nullptr || value->IsNull()) return {};
  if (value->IsString()) return value->string;
  if (value->IsObject()) return NeedString(*value, "content", fmt::format("{}: {}", kWhere, key));
  Fail(ErrorCode::kBadInput, "{}: \"{}\" must be a string or an object, found {}", kWhere, key,
       KindName(value->kind));
}

}  // namespace

Tokenizer::Impl::Impl(const JsonValue& file, const JsonValue* config)
    : model(Need(RootObject(file, "tokenizer.json"), "model", "tokenizer.json")),
      normalizer(ParseNormalizer(file.Find("normalizer"))),
      added(file.Find("added_tokens"), model, normalizer.get()),
      pre_tokenizer(ParsePreTokenizer(file.Find("pre_tokenizer"))),
      post_processor(ParsePostProcessor(file.Find("post_processor"))),
      decoder(ParseDecoder(file.Find("decoder"))) {
  if (config == nullptr) return;
  RootObject(*config, "tokenizer_config.json");
  const std::string bos = NamedToken(*config, "bos_token");
  const std::string eos = NamedToken(*config, "eos_token");
  if (!bos.empty()) bos_id = TokenToId(bos);
  if (!eos.empty()) eos_id = TokenToId(eos);
  add_bos_token = BoolOr(*config, "add_bos_token", false, "tokenizer_config.json");
}

std::optional<int32_t> Tokenizer::Impl::TokenToId(std::string_view token) const {
  if (const auto id = added.TokenToId(token)) return id;
  return model.TokenToId(token);
}

const std::string* Tokenizer::Impl::IdToToken(int32_t id) const {
  if (const AddedToken* token = added.Find(id)) return &token->text;
  return model.IdToToken(id);
}

bool Tokenizer::Impl::IsSpecial(int32_t id) const {
  const AddedToken* token = added.Find(id);
  return token != nullptr && added.IsSpecial(token->content);
}

int64_t Tokenizer::Impl::vocab_size() const {
  return std::max(model.highest_id(), added.highest_id()) + 1;
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Tokenizer::~Tokenizer() = default;

std::shared_ptr<const Tokenizer> Tokenizer::Load(const std::string& directory) {
  std::error_code error;
  const fs::path root(directory);
  if (!fs::is_directory(root, error)) {
    Fail(ErrorCode::kNotFound, "{}: no such directory", directory);
  }
  const fs::path file = root / "tokenizer.json";
  if (!fs::exists(file, error)) {
    for (const char* other : {"tiktoken.model", "tokenizer.model", "tekken.json"}) {
      if (fs::exists(root / other, error)) {
        Fail(ErrorCode::kUnsupported,
             "{}: there is a {}, but no tokenizer.json, the only format that is supported",
             directory, other);
      }
    }
    Fail(ErrorCode::kNotFound, "{}: no tokenizer.json in this directory", directory);
  }
  const fs::path config = root / "tokenizer_config.json";
  const std::string config_text = fs::exists(config, error) ? ReadFile(config) : std::string();
  try {
    return FromJson(ReadFile(file), config_text);
  } catch (const Error& e) {
    throw Error(e.code(), directory + ": " + e.what());
  }
}

std::shared_ptr<const Tokenizer> Tokenizer::FromJson(std::string_view tokenizer_json,
                                                     std::string_view tokenizer_config_json) {
  const JsonValue file = ParseJson(tokenizer_json, "tokenizer.json");
  JsonValue config;
  if (!tokenizer_config_json.empty()) {
    config = ParseJson(tokenizer_config_json, "tokenizer_config.json");
  }
  auto impl = std::make_unique<const Impl>(file, tokenizer_config_json.empty() ? nullptr : &config);
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    Fail(ErrorCode::kBadInput, "the text has {} bytes, at most {} can be tokenised", text.size(),
         kMaxTextBytes);
  }
  const std::string valid = ReplaceInvalidUtf8(text);
  PreTokenized pieces = impl_->added.Extract(valid, impl_->normalizer.get(), options.parse_special);
  if (impl_->pre_tokenizer != nullptr) impl_->pre_tokenizer->Apply(&pieces);
  std::vector<int32_t> ids;
  if (options.add_special) ids = impl_->post_processor.before;
  BpeScratch scratch;
  for (const Piece& piece : pieces.pieces) {
    if (piece.token >= 0) {
      ids.push_back(piece.token);
    } else {
      impl_->model.Encode(pieces.View(piece), &scratch, &ids);
    }
  }
  if (options.add_special) {
    ids.insert(ids.end(), impl_->post_processor.after.begin(), impl_->post_processor.after.end());
  }
  return ids;
}

std::vector<int32_t> Tokenizer::EncodePrompt(std::string_view text) const {
  std::vector<int32_t> ids = Encode(text);
  const auto bos = impl_->bos_id;
  if (!bos) return ids;
  if (impl_->add_bos_token && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  size_t leading = 0;
  while (leading < ids.size() && ids[leading] == *bos) ++leading;
  if (leading > 1) ids.erase(ids.begin() + 1, ids.begin() + static_cast<int64_t>(leading));
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  std::string bytes;
  const bool byte_level = impl_->decoder != nullptr && impl_->decoder->IsByteLevel();
  for (const int32_t id : ids) {
    if (id < 0 || id >= impl_->vocab_size()) {
      Fail(ErrorCode::kBadInput, "token id {} is outside of the vocabulary of {}", id,
           impl_->vocab_size());
    }
    const std::string* token = impl_->IdToToken(id);
    if (token == nullptr || (skip_special && impl_->added.IsSpecial(*token))) continue;
    if (byte_level) {
      AppendByteLevelBytes(*token, &bytes);
    } else {
      tokens.push_back(*token);
    }
  }
  if (byte_level) return ReplaceInvalidUtf8(bytes);
  std::string out;
  if (impl_->decoder != nullptr) impl_->decoder->Apply(&tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (impl_->decoder == nullptr && i > 0) out += ' ';
    out += tokens[i];
  }
  return out;
}

int64_t Tokenizer::vocab_size() const { return impl_->vocab_size(); }

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  return impl_->TokenToId(token);
}

std::optional<std::string> Tokenizer::IdToToken(int32_t id) const {
  const std::string* token = impl_->IdToToken(id);
  if (token == nullptr) return std::nullopt;
  return *token;
}

bool Tokenizer::IsSpecial(int32_t id) const { return impl_->IsSpecial(id); }

std::optional<int32_t> Tokenizer::bos_id() const { return impl_->bos_id; }

std::optional<int32_t> Tokenizer::eos_id() const { return impl_->eos_id; }

}  // namespace mla
