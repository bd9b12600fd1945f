#include "tokenizer/decoder.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "base/check.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

class ByteLevelDecoder : public Decoder {
 public:
  void Apply(std::vector<std::string>* tokens) const override {
    std::string bytes;
    for (const std::string& token : *tokens) AppendByteLevelBytes(token, &bytes);
    tokens->assign(1, ReplaceInvalidUtf8(bytes));
  }
  bool IsByteLevel() const override { return true; }
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(Regex regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}
  void Apply(std::vector<std::string>* tokens) const override {
    for (std::string& token : *tokens) token = ReplaceAll(regex_, token, content_);
  }

 private:
  Regex regex_;
  std::string content_;
};

/// <0x0A> tokens become bytes; a run that is not valid UTF-8 becomes one U+FFFD per byte.
class ByteFallbackDecoder : public Decoder {
 public:
  void Apply(std::vector<std::string>* tokens) const override {
    std::vector<std::string> out;
    std::string run;
    const auto flush = [&] {
      if (run.empty()) return;
      if (ReplaceInvalidUtf8(run) == run) {
        out.push_back(run);
      } else {
        for (size_t i = 0; i < run.size(); ++i) out.emplace_back(kReplacement);
      }
      run.clear();
    };
    for (std::string& token : *tokens) {
      if (const auto byte = ByteOf(token)) {
        run.push_back(*byte);
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    *tokens = std::move(out);
  }

 private:
  static std::optional<char> ByteOf(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
    int value = 0;
    for (const char c : token.substr(3, 2)) {
      const auto digit = static_cast<unsigned char>(c);
      if (std::isxdigit(digit) == 0) return std::nullopt;
      value =
          value * 16 + (std::isdigit(digit) != 0 ? digit - '0' : std::tolower(digit) - 'a' + 10);
    }
    return static_cast<char>(value);
  }
};

class FuseDecoder : public Decoder {
 public:
  void Apply(std::vector<std::string>* tokens) const override {
    std::string all;
    for (const std::string& token : *tokens) all += token;
    tokens->clear();
    tokens->push_back(std::move(all));
  }
};

/// Up to `start` copies of a character off the front of each token, `stop` off its end.
class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void Apply(std::vector<std::string>* tokens) const override {
    for (std::string& token : *tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) {
        rest.remove_prefix(content_.size());
      }
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) {
        rest.remove_suffix(content_.size());
      }
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  int64_t start_;
  int64_t stop_;
};

class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(std::string replacement, bool prepended)
      : replacement_(std::move(replacement)),
        prepended_(prepended),
        regex_(Regex::FromLiteral(replacement_)) {}
  void Apply(std::vector<std::string>* tokens) const override {
    bool first = true;
    for (std::string& token : *tokens) {
      token = ReplaceAll(regex_, token, first && prepended_ ? "" : " ");
      first = false;
    }
  }

 private:
  std::string replacement_;
  bool prepended_;
  Regex regex_;
};

class SequenceDecoder : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<const Decoder>> parts)
      : parts_(std::move(parts)) {}
  void Apply(std::vector<std::string>* tokens) const override {
    for (const auto& part : parts_) part->Apply(tokens);
  }
  bool IsByteLevel() const override { return parts_.size() == 1 && parts_.front()->IsByteLevel(); }

 private:
  std::vector<std::unique_ptr<const Decoder>> parts_;
};

}  // namespace

void AppendByteLevelBytes(std::string_view token, std::string* bytes) {
  const size_t before = bytes->size();
  for (size_t position = 0; position < token.size();) {
    const Utf8Char c = CharAt(token, position);
    const int byte = ByteLevelByte(c.code);
    if (byte < 0) {
      bytes->resize(before);
      bytes->append(token);
      return;
    }
    bytes->push_back(static_cast<char>(byte));
    position += c.size;
  }
}

std::unique_ptr<const Decoder> ParseDecoder(const JsonValue* component) {
  if (component == nullptr || component->IsNull()) return nullptr;
  const std::string& type = ComponentType(*component, "decoder");
  const std::string where = "decoder " + type;
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Replace") {
    return std::make_unique<ReplaceDecoder>(ParsePattern(*component, where),
                                            NeedString(*component, "content", where));
  }
  if (type == "Strip") {
    std::string content = NeedString(*component, "content", where);
    if (content.empty()) Fail(ErrorCode::kBadInput, "{}: \"content\" is empty", where);
    return std::make_unique<StripDecoder>(std::move(content),
                                          IntegerOr(*component, "start", 0, where),
                                          IntegerOr(*component, "stop", 0, where));
  }
  if (type == "Metaspace") {
    const bool prefix = BoolOr(*component, "add_prefix_space", true, where);
    const std::string scheme =
        StringOr(*component, "prepend_scheme", prefix ? "always" : "never", where);
    std::string replacement = StringOr(*component, "replacement", "\xe2\x96\x81", where);
    if (replacement.empty()) Fail(ErrorCode::kBadInput, "{}: \"replacement\" is empty", where);
    return std::make_unique<MetaspaceDecoder>(std::move(replacement), scheme != "never");
  }
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const Decoder>> parts;
    for (const JsonValue& part : NeedArray(*component, "decoders", where).items) {
      if (auto parsed = ParseDecoder(&part)) parts.push_back(std::move(parsed));
    }
    return std::make_unique<SequenceDecoder>(std::move(parts));
  }
  Fail(ErrorCode::kUnsupported,
       "tokenizer.json: decoder \"{}\" is not supported; supported are ByteLevel, ByteFallback, "
       "Fuse, Replace, Strip, Metaspace and Sequence",
       type);
}

}  // namespace mla
