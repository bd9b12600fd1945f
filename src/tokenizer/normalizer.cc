#include "tokenizer/normalizer.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form) {}
  std::string Apply(std::string_view text) const override { return Normalize(text, form_); }

 private:
  NormalForm form_;
};

class LowercaseNormalizer : public Normalizer {
 public:
  std::string Apply(std::string_view text) const override { return Lowercase(text); }
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(Regex regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}
  std::string Apply(std::string_view text) const override {
    return ReplaceAll(regex_, text, content_);
  }

 private:
  Regex regex_;
  std::string content_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string text) : text_(std::move(text)) {}
  std::string Apply(std::string_view text) const override {
    return text.empty() ? std::string() : text_ + std::string(text);
  }

 private:
  std::string text_;
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  std::string Apply(std::string_view text) const override {
    size_t begin = 0;
    size_t end = text.size();
    while (left_ && begin < end) {
      const Utf8Char c = CharAt(text, begin);
      if (!IsWhitespace(c.code)) break;
      begin += c.size;
    }
    while (right_ && end > begin) {
      const char32_t last = LastChar(text.substr(begin, end - begin));
      if (!IsWhitespace(last)) break;
      std::string bytes;
      AppendUtf8(&bytes, last);
      end -= bytes.size();
    }
    return std::string(text.substr(begin, end - begin));
  }

 private:
  bool left_;
  bool right_;
};

class StripAccentsNormalizer : public Normalizer {
 public:
  std::string Apply(std::string_view text) const override {
    std::string out;
    for (size_t position = 0; position < text.size();) {
      const Utf8Char c = CharAt(text, position);
      if (!IsMark(c.code)) out.append(text, position, c.size);
      position += c.size;
    }
    return out;
  }
};

class ByteLevelNormalizer : public Normalizer {
 public:
  std::string Apply(std::string_view text) const override {
    std::string out;
    out.reserve(text.size() + text.size() / 4);
    for (const char c : text) out += ByteLevelChar(static_cast<unsigned char>(c));
    return out;
  }
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<const Normalizer>> parts)
      : parts_(std::move(parts)) {}
  std::string Apply(std::string_view text) const override {
    std::string out(text);
    for (const auto& part : parts_) out = part->Apply(out);
    return out;
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<const Normalizer> ParseNormalizer(const JsonValue* component) {
  if (component == nullptr || component->IsNull()) return nullptr;
  const std::string& type = ComponentType(*component, "normalizer");
  const std::string where = "normalizer " + type;
  if (type == "NFC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "StripAccents") return std::make_unique<StripAccentsNormalizer>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Strip") {
    return std::make_unique<StripNormalizer>(BoolOr(*component, "strip_left", true, where),
                                             BoolOr(*component, "strip_right", true, where));
  }
  if (type == "Prepend") {
    return std::make_unique<PrependNormalizer>(NeedString(*component, "prepend", where));
  }
  if (type == "Replace") {
    return std::make_unique<ReplaceNormalizer>(ParsePattern(*component, where),
                                               NeedString(*component, "content", where));
  }
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const Normalizer>> parts;
    for (const JsonValue& part : NeedArray(*component, "normalizers", where).items) {
      if (auto parsed = ParseNormalizer(&part)) parts.push_back(std::move(parsed));
    }
    return std::make_unique<SequenceNormalizer>(std::move(parts));
  }
  Fail(ErrorCode::kUnsupported,
       "tokenizer.json: normalizer \"{}\" is not supported; supported are NFC, NFD, NFKC, NFKD, "
       "Lowercase, Strip, StripAccents, Replace, Prepend, ByteLevel and Sequence",
       type);
}

}  // namespace mla
