#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "tokenizer/regex_property.h"
#include "tokenizer/unicode.h"

namespace mla {
namespace {

// A 20,000-letter word overflows PCRE2's default 32 KiB; the pages are only touched on use.
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackMax = 8 * 1024 * 1024;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr uint32_t kMaxParenDepth = 64;
// Backtracking steps that one search may take: enough for patterns that scan the text a few times.
constexpr uint64_t kMatchLimitBase = 100000;
constexpr uint64_t kMatchLimitPerByte = 16;

/// Matching memory of one thread.
class MatchScratch {
 public:
  MatchScratch()
      : stack_(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        data_(pcre2_match_data_create(1, nullptr)) {
    if (context_ == nullptr || data_ == nullptr) {
      Release();
      Fail(ErrorCode::kResource, "no memory for regular expression matching");
    }
    if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
    pcre2_set_heap_limit(context_, kHeapLimitKib);
  }
  ~MatchScratch() { Release(); }
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

  pcre2_match_context* context() const { return context_; }
  pcre2_match_data* data() const { return data_; }

 private:
  void Release() {
    pcre2_match_data_free(data_);
    pcre2_match_context_free(context_);
    if (stack_ != nullptr) pcre2_jit_stack_free(stack_);
  }

  pcre2_jit_stack* stack_;
  pcre2_match_context* context_;
  pcre2_match_data* data_;
};

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  Code(pcre2_code* code, std::string_view original_pattern)
      : pcre(code), pattern(original_pattern.substr(0, 200)) {}
  ~Code() { pcre2_code_free(pcre); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* pcre;
  std::string pattern;  // for messages
};

Regex Regex::FromOniguruma(std::string_view pattern) {
  return Compile(TranslateOniguruma(pattern), pattern);
}

Regex Regex::FromLiteral(std::string_view text) {
  std::string escaped;
  for (size_t position = 0; position < text.size();) {
    const Utf8Char c = CharAt(text, position);
    position += c.size;
    escaped += HexEscape(c.code);
  }
  return Compile(escaped, text);
}

Regex Regex::Compile(const std::string& translated, std::string_view original) {
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (context == nullptr) Fail(ErrorCode::kResource, "no memory to compile a regular expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kMaxParenDepth);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Oniguruma's Ruby syntax lets ^ and $ match at every line.
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, context.get());
  if (code == nullptr) {
    Fail(ErrorCode::kUnsupported, "regular expression '{}': {} (at byte {} of its PCRE2 form)",
         original.substr(0, 200), ErrorText(error), offset);
  }
  auto owner = std::make_shared<const Code>(code, original);
  // Without JIT (an architecture or policy that forbids it) matching is slower, not different.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Regex(std::move(owner));
}

void Regex::FindAll(std::string_view text, std::vector<Span>* matches) const {
  thread_local MatchScratch scratch;
  const uint64_t limit = kMatchLimitBase + kMatchLimitPerByte * text.size();
  pcre2_set_match_limit(scratch.context(), static_cast<uint32_t>(std::min<uint64_t>(
                                               limit, std::numeric_limits<uint32_t>::max())));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(scratch.data());
  size_t from = 0;
  size_t last_end = std::numeric_limits<size_t>::max();
  while (from <= text.size()) {
    const int rc = pcre2_match(code_->pcre, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                               scratch.data(), scratch.context());
    if (rc == PCRE2_ERROR_NOMATCH) return;
    if (rc < 0) {
      Fail(ErrorCode::kBadInput, "regular expression '{}' failed on a text of {} bytes: {}",
           code_->pattern, text.size(), ErrorText(rc));
    }
    const Span match{ovector[0], ovector[1]};
    if (match.begin > match.end || match.begin < from) {
      Fail(ErrorCode::kBadInput, "regular expression '{}' matches backwards", code_->pattern);
    }
    if (match.begin == match.end && match.begin == last_end) {
      // As Oniguruma's callers do: no empty match directly behind another one.
      if (from >= text.size()) return;
      from += CharAt(text, from).size;
      continue;
    }
    matches->push_back(match);
    from = match.end;
    last_end = match.end;
  }
}

}  // namespace mla
