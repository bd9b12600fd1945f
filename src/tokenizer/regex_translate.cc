#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tokenizer/regex.h"
#include "tokenizer/regex_class.h"
#include "tokenizer/regex_property.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

constexpr size_t kMaxPatternBytes = 1 << 16;

/// One pass over the pattern. Classes and escapes are rewritten by ClassParser; the rest differs
/// from PCRE2 in option letters, \b, intervals and a few escapes.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern), classes_(pattern) {}

  std::string Run() {
    while (position_ < pattern_.size()) Step();
    if (!groups_.empty()) classes_.FailAt(pattern_.size(), "unclosed group");
    GuardTrailingRun();
    return std::move(out_);
  }

 private:
  void Step() {
    const char c = pattern_[position_];
    switch (c) {
      case '\\':
        ++position_;
        Escape();
        return;
      case '[':
        ++position_;
        Atom(classes_.ParseClass(&position_));
        return;
      case '(':
        OpenGroup();
        return;
      case ')':
        if (groups_.empty()) classes_.FailAt(position_, "unmatched )");
        ++position_;
        out_ += ')';
        atom_ = groups_.back();
        groups_.pop_back();
        return;
      case '{':
        Interval();
        return;
      case '*':
      case '+':
      case '?':
      case '|':
      case '^':
      case '$':
        out_ += c;
        ++position_;
        return;
      case '.':
        ++position_;
        Atom(".");
        return;
      default: {
        const Utf8Char code = CharAt(pattern_, position_);
        position_ += code.size;
        Atom(Literal(code.code));
        return;
      }
    }
  }

  static std::string Literal(char32_t code) {
    const bool plain = (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
                       (code >= 'a' && code <= 'z');
    return plain ? std::string(1, static_cast<char>(code)) : HexEscape(code);
  }

  void Atom(const std::string& text) {
    atom_ = out_.size();
    out_ += text;
  }

  void Escape() {
    if (auto set = classes_.ParseSetEscape(&position_)) {
      Atom(set->Expression());
      return;
    }
    if (position_ >= pattern_.size()) {
      classes_.FailAt(position_, "pattern ends after a backslash");
    }
    const char c = pattern_[position_];
    if (c == 'b' || c == 'B') {
      ++position_;
      const std::string word = ShorthandSet('w', false)->Expression();
      const std::string edge =
          "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))";
      Atom(c == 'b' ? edge : "(?!" + edge + ")");
    } else if (std::string_view("AzZGKRX").find(c) != std::string_view::npos ||
               (c >= '1' && c <= '9')) {
      const size_t begin = position_ - 1;
      ++position_;
      if (c >= '1' && c <= '9') {
        while (position_ < pattern_.size() && pattern_[position_] >= '0' &&
               pattern_[position_] <= '9') {
          ++position_;
        }
      }
      Atom(std::string(pattern_.substr(begin, position_ - begin)));
    } else if (c == 'k' || c == 'g') {
      const size_t close = pattern_.find('>', position_);
      if (pattern_.substr(position_ + 1, 1) != "<" || close == std::string_view::npos) {
        classes_.FailAt(position_, "malformed reference");
      }
      Atom(std::string(pattern_.substr(position_ - 1, close + 2 - position_)));
      position_ = close + 1;
    } else {
      Atom(Literal(classes_.ParseCharEscape(&position_)));
    }
  }

  void OpenGroup() {
    const size_t begin = out_.size();
    const std::string_view rest = pattern_.substr(position_);
    if (rest.substr(0, 2) == "(*") classes_.FailAt(position_, "(* is not supported");
    if (rest.substr(0, 3) == "(?#") {
      const size_t close = rest.find(')');
      if (close == std::string_view::npos) classes_.FailAt(position_, "unterminated comment");
      position_ += close + 1;
      return;
    }
    if (rest.substr(0, 2) != "(?") {
      out_ += '(';
      ++position_;
      groups_.push_back(begin);
      return;
    }
    for (const std::string_view head : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (rest.substr(0, head.size()) != head) continue;
      out_ += head;
      position_ += head.size();
      groups_.push_back(begin);
      return;
    }
    if (rest.substr(0, 3) == "(?<") {
      const size_t close = rest.find('>');
      if (close == std::string_view::npos) classes_.FailAt(position_, "unterminated group name");
      out_ += rest.substr(0, close + 1);
      position_ += close + 1;
      groups_.push_back(begin);
      return;
    }
    Options(begin);
  }

  /// (?imx-imx) and (?imx-imx:...). Ruby's m lets . match newlines, which PCRE2 calls s.
  void Options(size_t begin) {
    const size_t start = position_;
    out_ += "(?";
    for (position_ += 2; position_ < pattern_.size(); ++position_) {
      const char c = pattern_[position_];
      if (c == ')' || c == ':') {
        out_ += c;
        ++position_;
        if (c == ':') groups_.push_back(begin);
        return;
      }
      if (c == 'm') {
        out_ += 's';
      } else if (c == 'i' || c == '-') {
        out_ += c;
      } else {
        classes_.FailAt(start, "unsupported group or option");
      }
    }
    classes_.FailAt(start, "unclosed group");
  }

  /// {n}, {n,}, {n,m}, {,m}. In Ruby's syntax a + behind it repeats the whole once more (PCRE2:
  /// possessive), and {n}? makes the whole optional (PCRE2: lazy).
  void Interval() {
    size_t i = position_ + 1;
    const auto digits = [&] {
      const size_t from = i;
      while (i < pattern_.size() && pattern_[i] >= '0' && pattern_[i] <= '9') ++i;
      return pattern_.substr(from, i - from);
    };
    const std::string_view low = digits();
    bool has_comma = false;
    std::string_view high;
    if (i < pattern_.size() && pattern_[i] == ',') {
      has_comma = true;
      ++i;
      high = digits();
    }
    if (i >= pattern_.size() || pattern_[i] != '}' || (low.empty() && high.empty())) {
      ++position_;
      Atom("\\x{7b}");
      return;
    }
    position_ = i + 1;
    if (atom_ == std::string::npos) classes_.FailAt(position_, "nothing to repeat");
    std::string interval = "{" + (low.empty() ? "0" : std::string(low));
    if (has_comma) interval += "," + std::string(high);
    out_ += interval + "}";
    const char next = position_ < pattern_.size() ? pattern_[position_] : '\0';
    if (next == '+' || (next == '?' && !has_comma)) {
      ++position_;
      out_.insert(atom_, "(?:");
      out_ += std::string(")") + next;
    }
  }

  /// "C+$" for a class C, searched in a long run of C that does not end the line, would try each
  /// start in the run: quadratic. A match can only start where the search starts or where a run
  /// begins, so say so.
  void GuardTrailingRun() {
    const std::string_view tail = "+$";
    if (out_.size() <= tail.size() || atom_ != 0 || !out_.ends_with(tail)) return;
    const std::string atom = out_.substr(0, out_.size() - tail.size());
    size_t end = 0;
    if (pattern_.front() == '[') {
      end = 1;
      classes_.ParseClass(&end);
    } else if (pattern_.front() == '\\') {
      end = 1;
      if (!classes_.ParseSetEscape(&end)) return;
    }
    if (end == 0 || pattern_.substr(end) != tail) return;
    out_ = "(?:\\G|(?<!" + atom + "))" + atom + "+$";
  }

  std::string_view pattern_;
  ClassParser classes_;
  size_t position_ = 0;
  std::string out_;
  size_t atom_ = std::string::npos;  // where the last atom begins in out_
  std::vector<size_t> groups_;       // where the open groups begin in out_
};

}  // namespace

std::string TranslateOniguruma(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    Fail(ErrorCode::kUnsupported, "regular expression of {} bytes, at most {} are supported",
         pattern.size(), kMaxPatternBytes);
  }
  return Translator(pattern).Run();
}

}  // namespace mla
