#include "tokenizer/pretokenizer.h"

#include <functional>
#include <utility>

#include "base/check.h"
#include "tokenizer/pattern.h"
#include "tokenizer/regex.h"
#include "tokenizer/split_behavior.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

using Finder = std::function<void(std::string_view, std::vector<Span>*)>;

Finder CharFinder(bool (*is_match)(char32_t)) {
  return [is_match](std::string_view text, std::vector<Span>* matches) {
    for (size_t position = 0; position < text.size();) {
      const Utf8Char c = CharAt(text, position);
      if (is_match(c.code)) matches->push_back({position, position + c.size});
      position += c.size;
    }
  };
}

/// Runs of word characters and runs of what is neither that nor whitespace.
void FindWords(std::string_view text, std::vector<Span>* matches) {
  int previous = 0;  // 1: word, 2: other, 0: whitespace
  for (size_t position = 0; position < text.size();) {
    const Utf8Char c = CharAt(text, position);
    const int kind = IsWordChar(c.code) ? 1 : IsWhitespace(c.code) ? 0 : 2;
    if (kind != 0 && kind == previous) {
      matches->back().end += c.size;
    } else if (kind != 0) {
      matches->push_back({position, position + c.size});
    }
    previous = kind;
    position += c.size;
  }
}

Finder RegexFinder(Regex regex) {
  return [regex = std::move(regex)](std::string_view text, std::vector<Span>* matches) {
    regex.FindAll(text, matches);
  };
}

/// Split, Digits, Punctuation, WhitespaceSplit, Whitespace: a pattern and a behaviour.
class SplitPreTokenizer : public PreTokenizer {
 public:
  SplitPreTokenizer(Finder finder, SplitBehavior behavior, bool invert)
      : finder_(std::move(finder)), behavior_(behavior), invert_(invert) {}

  void Apply(PreTokenized* text) const override {
    std::vector<Piece> pieces;
    pieces.reserve(text->pieces.size() * 2);
    std::vector<Span> matches;
    std::vector<Span> parts;
    for (const Piece& piece : text->pieces) {
      if (piece.token >= 0) {
        pieces.push_back(piece);
        continue;
      }
      matches.clear();
      finder_(text->View(piece), &matches);
      SplitAt(piece.end - piece.begin, matches, behavior_, invert_, &parts);
      for (const Span& part : parts) {
        pieces.push_back({piece.begin + part.begin, piece.begin + part.end, -1,
                          piece.at_start && part.begin == 0});
      }
    }
    text->pieces = std::move(pieces);
  }

 private:
  Finder finder_;
  SplitBehavior behavior_;
  bool invert_;
};

/// A pre-tokenizer that rewrites each text piece into pieces of a new buffer.
class RewritingPreTokenizer : public PreTokenizer {
 public:
  void Apply(PreTokenized* text) const override {
    PreTokenized out;
    out.text.reserve(text->text.size() + text->text.size() / 2);
    out.pieces.reserve(text->pieces.size() * 2);
    for (const Piece& piece : text->pieces) {
      if (piece.token >= 0) {
        out.pieces.push_back({out.text.size(), out.text.size(), piece.token, piece.at_start});
      } else {
        Rewrite(text->View(piece), piece.at_start, &out);
      }
    }
    *text = std::move(out);
  }

 protected:
  virtual void Rewrite(std::string_view piece, bool at_start, PreTokenized* out) const = 0;

  static void AppendPiece(size_t begin, bool at_start, PreTokenized* out) {
    if (begin < out->text.size()) out->pieces.push_back({begin, out->text.size(), -1, at_start});
  }
};

class ByteLevelPreTokenizer : public RewritingPreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex)
      : add_prefix_space_(add_prefix_space) {
    if (use_regex) {
      finder_ = RegexFinder(Regex::FromOniguruma(
          R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"));
    }
  }

 private:
  void Rewrite(std::string_view piece, bool at_start, PreTokenized* out) const override {
    std::string prefixed;
    if (add_prefix_space_ && !piece.starts_with(' ')) {
      prefixed = " " + std::string(piece);
      piece = prefixed;
    }
    std::vector<Span> parts;
    if (finder_) {
      std::vector<Span> matches;
      finder_(piece, &matches);
      SplitAt(piece.size(), matches, SplitBehavior::kIsolated, false, &parts);
    } else {
      parts.push_back({0, piece.size()});
    }
    for (const Span& part : parts) {
      const size_t begin = out->text.size();
      for (size_t i = part.begin; i < part.end; ++i) {
        out->text += ByteLevelChar(static_cast<unsigned char>(piece[i]));
      }
      AppendPiece(begin, at_start && part.begin == 0, out);
    }
  }

  bool add_prefix_space_;
  Finder finder_;
};

enum class PrependScheme { kFirst, kAlways, kNever };

class MetaspacePreTokenizer : public RewritingPreTokenizer {
 public:
  MetaspacePreTokenizer(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)),
        scheme_(scheme),
        split_(split),
        regex_(Regex::FromLiteral(replacement_)) {}

 private:
  void Rewrite(std::string_view piece, bool at_start, PreTokenized* out) const override {
    std::string replaced;
    for (const char c : piece) {
      if (c == ' ') {
        replaced += replacement_;
      } else {
        replaced += c;
      }
    }
    const bool prepend =
        scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && at_start);
    if (prepend && !replaced.starts_with(replacement_)) replaced.insert(0, replacement_);
    std::vector<Span> parts{{0, replaced.size()}};
    if (split_) {
      std::vector<Span> matches;
      regex_.FindAll(replaced, &matches);
      SplitAt(replaced.size(), matches, SplitBehavior::kMergedWithNext, false, &parts);
    }
    for (const Span& part : parts) {
      const size_t begin = out->text.size();
      out->text.append(replaced, part.begin, part.end - part.begin);
      AppendPiece(begin, at_start && part.begin == 0, out);
    }
  }

  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
  Regex regex_;
};

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<const PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  void Apply(PreTokenized* text) const override {
    for (const auto& part : parts_) part->Apply(text);
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

std::unique_ptr<const PreTokenizer> MakeSplit(Finder finder, SplitBehavior behavior,
                                              bool invert = false) {
  return std::make_unique<SplitPreTokenizer>(std::move(finder), behavior, invert);
}

std::unique_ptr<const PreTokenizer> ParseMetaspace(const JsonValue& component,
                                                   const std::string& where) {
  const std::string replacement = StringOr(component, "replacement", "\xe2\x96\x81", where);
  // Files before tokenizers 0.15 say add_prefix_space instead of prepend_scheme.
  const bool prefix = BoolOr(component, "add_prefix_space", true, where);
  const std::string name =
      StringOr(component, "prepend_scheme", prefix ? "always" : "never", where);
  PrependScheme scheme = PrependScheme::kAlways;
  if (name == "first") {
    scheme = PrependScheme::kFirst;
  } else if (name == "never") {
    scheme = PrependScheme::kNever;
  } else if (name != "always") {
    Fail(ErrorCode::kBadInput, "{}: unknown prepend_scheme \"{}\"; expected first, always or never",
         where, name);
  }
  return std::make_unique<MetaspacePreTokenizer>(replacement, scheme,
                                                 BoolOr(component, "split", true, where));
}

}  // namespace

std::unique_ptr<const PreTokenizer> ParsePreTokenizer(const JsonValue* component) {
  if (component == nullptr || component->IsNull()) return nullptr;
  const std::string& type = ComponentType(*component, "pre_tokenizer");
  const std::string where = "pre_tokenizer " + type;
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const PreTokenizer>> parts;
    for (const JsonValue& part : NeedArray(*component, "pretokenizers", where).items) {
      if (auto parsed = ParsePreTokenizer(&part)) parts.push_back(std::move(parsed));
    }
    return std::make_unique<SequencePreTokenizer>(std::move(parts));
  }
  if (type == "Split") {
    return MakeSplit(RegexFinder(ParsePattern(*component, where)),
                     ParseSplitBehavior(NeedString(*component, "behavior", where), where),
                     BoolOr(*component, "invert", false, where));
  }
  if (type == "ByteLevel") {
    return std::make_unique<ByteLevelPreTokenizer>(
        BoolOr(*component, "add_prefix_space", true, where),
        BoolOr(*component, "use_regex", true, where));
  }
  if (type == "Digits") {
    const bool single = BoolOr(*component, "individual_digits", false, where);
    return MakeSplit(CharFinder(IsNumeric),
                     single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    return MakeSplit(
        CharFinder(IsPunctuation),
        ParseSplitBehavior(StringOr(*component, "behavior", "Isolated", where), where));
  }
  if (type == "WhitespaceSplit") {
    return MakeSplit(CharFinder(IsWhitespace), SplitBehavior::kRemoved);
  }
  if (type == "Whitespace") {
    return MakeSplit(FindWords, SplitBehavior::kRemoved, true);
  }
  if (type == "Metaspace") return ParseMetaspace(*component, where);
  Fail(ErrorCode::kUnsupported,
       "tokenizer.json: pre_tokenizer \"{}\" is not supported; supported are Split, ByteLevel, "
       "Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace and Sequence",
       type);
}

}  // namespace mla
