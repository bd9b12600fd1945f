// Malformed and hostile tokenizer files: each a typed error that names the fault.
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mla/error.h"
#include "tokenizer/tokenizer.h"

namespace mla {
namespace {

/// A small valid file with one member replaced or added.
std::string FileWith(const std::string& model, const std::string& others = "") {
  return R"({"added_tokens":[],"model":)" + model + others + "}";
}

constexpr const char* kModel =
    R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]})";

std::string With(const std::string& member, const std::string& value) {
  return FileWith(kModel, ",\"" + member + "\":" + value);
}

std::string Split(const std::string& regex) {
  return With("pre_tokenizer", R"({"type":"Split","pattern":{"Regex":")" + regex +
                                   R"("},"behavior":"Isolated","invert":false})");
}

struct Case {
  const char* name;
  std::string json;
  ErrorCode code;
  std::string message;  // a part of it
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> Cases() {
  const auto bad = ErrorCode::kBadInput;
  const auto unsupported = ErrorCode::kUnsupported;
  const auto added = [](const std::string& list) {
    return R"({"model":)" + std::string(kModel) + R"(,"added_tokens":)" + list + "}";
  };
  return {
      {"Empty", "", bad, "not valid JSON"},
      {"Truncated", std::string(kModel).substr(0, 40), bad, "not valid JSON"},
      {"NotUtf8", "{\"model\":\"\xff\"}", bad, "not valid JSON"},
      {"NotAnObject", "[1]", bad, "must hold an object"},
      {"DeepNesting", std::string(100000, '['), bad, "nested 100000 levels"},
      {"NoModel", "{}", bad, "\"model\" is missing"},
      {"ModelIsString", R"({"model":"BPE"})", bad, "must be an object"},
      {"Unigram", FileWith(R"({"type":"Unigram","vocab":[]})"), unsupported, "\"Unigram\""},
      {"NoVocab", FileWith(R"({"type":"BPE","merges":[]})"), bad, "\"vocab\" is missing"},
      {"VocabIsArray", FileWith(R"({"type":"BPE","vocab":[],"merges":[]})"), bad, "an object"},
      {"NegativeId", FileWith(R"({"vocab":{"a":-1},"merges":[]})"), bad, "found -1"},
      {"HugeId", FileWith(R"({"vocab":{"a":2147483647},"merges":[]})"), bad, "found 2147483647"},
      {"HugerId", FileWith(R"({"vocab":{"a":18446744073709551615},"merges":[]})"), bad, "integer"},
      {"FloatId", FileWith(R"({"vocab":{"a":1.5},"merges":[]})"), bad, "integer"},
      {"StringId", FileWith(R"({"vocab":{"a":"1"},"merges":[]})"), bad, "found a string"},
      {"DuplicateToken", FileWith(R"({"vocab":{"a":0,"a":1},"merges":[]})"), bad, "twice"},
      {"DuplicateId", FileWith(R"({"vocab":{"a":0,"b":0},"merges":[]})"), bad, "same id 0"},
      {"NoMerges", FileWith(R"({"vocab":{"a":0}})"), bad, "\"merges\" is missing"},
      {"UnknownMerge", FileWith(R"({"vocab":{"a":0},"merges":[["a","x"]]})"), bad, "\"x\""},
      {"UnknownProduct", FileWith(R"({"vocab":{"a":0},"merges":["a a"]})"), bad, "\"aa\""},
      {"MergeOfThree", FileWith(R"({"vocab":{"a":0},"merges":["a a a"]})"), bad, "merge 0"},
      {"MergeIsNumber", FileWith(R"({"vocab":{"a":0},"merges":[7]})"), bad, "merge 0"},
      {"UnknownUnk", FileWith(R"({"vocab":{"a":0},"merges":[],"unk_token":"u"})"), bad, "\"u\""},
      {"Dropout", FileWith(R"({"vocab":{"a":0},"merges":[],"dropout":0.1})"), unsupported,
       "dropout"},
      {"AddedIsObject", added("{}"), bad, "must be an array"},
      {"AddedWithoutId", added(R"([{"content":"x"}])"), bad, "\"id\" is missing"},
      {"AddedNegativeId", added(R"([{"content":"x","id":-3}])"), bad, "found -3"},
      {"AddedSameId", added(R"([{"content":"x","id":3},{"content":"y","id":3}])"), bad,
       "same id 3"},
      {"AddedSpecialIsString", added(R"([{"content":"x","id":3,"special":"yes"}])"), bad,
       "\"special\""},
      {"Normalizer", With("normalizer", R"({"type":"Precompiled"})"), unsupported,
       "\"Precompiled\" is not supported; supported are NFC"},
      {"NormalizerIsArray", With("normalizer", "[]"), bad, "must be an object"},
      {"PreTokenizer", With("pre_tokenizer", R"({"type":"UnicodeScripts"})"), unsupported,
       "\"UnicodeScripts\""},
      {"Behavior",
       With("pre_tokenizer", R"({"type":"Split","pattern":{"String":"a"},"behavior":"Shout"})"),
       bad, "\"Shout\""},
      {"NoPattern", With("pre_tokenizer", R"({"type":"Split","behavior":"Removed"})"), bad,
       "\"pattern\" is missing"},
      {"EmptyPattern",
       With("pre_tokenizer", R"({"type":"Split","pattern":{},"behavior":"Removed"})"), bad,
       "neither"},
      {"Decoder", With("decoder", R"({"type":"WordPiece"})"), unsupported, "\"WordPiece\""},
      {"PostProcessor", With("post_processor", R"({"type":"Magic"})"), unsupported, "\"Magic\""},
      {"TemplateUnknownToken", With("post_processor", R"({"type":"TemplateProcessing","single":
            [{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}]})"),
       bad, "\"<s>\""},
      {"TemplateBadId", With("post_processor", R"({"type":"TemplateProcessing","single":
            [{"SpecialToken":{"id":"<s>"}},{"Sequence":{"id":"A"}}],
            "special_tokens":{"<s>":{"ids":[-1]}}})"),
       bad, "found -1"},
      {"RegexUnclosed", Split("(a"), unsupported, "unclosed group"},
      {"RegexClass", Split("[a"), unsupported, "unterminated character class"},
      {"RegexProperty", Split("\\\\p{Klingon}"), unsupported, "Klingon"},
      {"RegexVerb", Split("(*LIMIT_MATCH=1)a"), unsupported, "(*"},
      {"RegexCallout", Split("(?C1)a"), unsupported, "unsupported group"},
      {"RegexHuge", Split(std::string(100000, 'a')), unsupported, "100000 bytes"},
      {"RegexRepeat", Split("((a{60000}){60000}){60000}"), unsupported, "regular expression"},
      {"RegexNesting", Split(std::string(5000, '(') + std::string(5000, ')')), unsupported,
       "regular expression"},
      {"ClassNesting", Split(std::string(5000, '[') + "a"), unsupported, "nested"},
  };
}

class BadFileTest : public testing::TestWithParam<Case> {};

TEST_P(BadFileTest, IsATypedError) {
  try {
    Tokenizer::FromJson(GetParam().json);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), GetParam().code) << e.what();
    EXPECT_NE(std::string(e.what()).find(GetParam().message), std::string::npos) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, BadFileTest, testing::ValuesIn(Cases()),
                         [](const auto& param) { return param.param.name; });

ErrorCode CodeOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode{0};
}

TEST(BadInput, BaseFileIsValid) {
  const auto tokenizer = Tokenizer::FromJson(FileWith(kModel));
  EXPECT_EQ(tokenizer->Encode("ab"), std::vector<int32_t>{2});
  EXPECT_EQ(tokenizer->vocab_size(), 3);
}

TEST(BadInput, CatastrophicPatternsEndInAnError) {
  for (const char* regex : {"(a+)+[bc]", "(a|a)*(?=[bc])", "(?:a?){25}a{25}[bc]", "(?:a+)+$"}) {
    const auto tokenizer = Tokenizer::FromJson(Split(regex));
    EXPECT_EQ(CodeOf([&] { tokenizer->Encode(std::string(3000, 'a') + "!"); }),
              ErrorCode::kBadInput)
        << regex;
  }
  const auto recursive = Tokenizer::FromJson(Split("(a\\\\g<1>?[bc]?)+[bc]"));
  EXPECT_EQ(CodeOf([&] { recursive->Encode(std::string(100000, 'a')); }), ErrorCode::kBadInput);
}

TEST(BadInput, UnknownIdsAreNamed) {
  const auto tokenizer = Tokenizer::FromJson(FileWith(kModel));
  for (const int32_t id : {-1, 3, 2147483647}) {
    try {
      tokenizer->Decode(std::vector<int32_t>{0, id});
      FAIL() << id;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(e.what()).find(std::to_string(id)), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("vocabulary of 3"), std::string::npos) << e.what();
    }
    StreamDecoder stream(tokenizer);
    EXPECT_EQ(stream.Push(id), "");
  }
}

TEST(BadInput, Directories) {
  EXPECT_EQ(CodeOf([] { Tokenizer::Load("/nonexistent"); }), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf([] { Tokenizer::Load(MLA_TEST_DATA); }), ErrorCode::kNotFound);
}

TEST(BadInput, Configs) {
  const std::string file = FileWith(kModel);
  for (const char* config : {"[]", "{", R"({"bos_token":1})", R"({"add_bos_token":"yes"})",
                             R"({"eos_token":{"text":"a"}})"}) {
    EXPECT_EQ(CodeOf([&] { Tokenizer::FromJson(file, config); }), ErrorCode::kBadInput) << config;
  }
}

}  // namespace
}  // namespace mla
