#include "tokenizer/post_processor.h"

#include <string>

#include "base/check.h"

namespace mla {
namespace {

constexpr size_t kMaxAddedIds = 1024;

void AppendTemplateIds(const JsonValue& component, const JsonValue& special,
                       const std::string& where, std::vector<int32_t>* ids) {
  const std::string& name = NeedString(special, "id", where);
  const JsonValue* known = component.Find("special_tokens");
  const JsonValue* entry = known == nullptr ? nullptr : known->Find(name);
  if (entry == nullptr) {
    Fail(ErrorCode::kBadInput, "{}: token \"{}\" is not among its special_tokens", where, name);
  }
  for (const JsonValue& id : NeedArray(*entry, "ids", where).items) {
    ids->push_back(TokenIdOf(id, where + ": " + name));
  }
}

PostProcessor ParseTemplate(const JsonValue& component, const std::string& where) {
  PostProcessor out;
  bool seen_text = false;
  for (const JsonValue& part : NeedArray(component, "single", where).items) {
    if (part.Find("Sequence") != nullptr) {
      if (seen_text) {
        Fail(ErrorCode::kUnsupported, "{}: \"single\" repeats the text", where);
      }
      seen_text = true;
    } else {
      AppendTemplateIds(component, Need(part, "SpecialToken", where), where,
                        seen_text ? &out.after : &out.before);
    }
  }
  if (!seen_text) Fail(ErrorCode::kUnsupported, "{}: \"single\" leaves out the text", where);
  return out;
}

int32_t PairId(const JsonValue& component, const char* key, const std::string& where) {
  const JsonValue& pair = NeedArray(component, key, where);
  if (pair.items.size() != 2) {
    Fail(ErrorCode::kBadInput, "{}: \"{}\" must be [token, id]", where, key);
  }
  return TokenIdOf(pair.items[1], where + ": " + key);
}

}  // namespace

PostProcessor ParsePostProcessor(const JsonValue* component) {
  PostProcessor out;
  if (component == nullptr || component->IsNull()) return out;
  const std::string& type = ComponentType(*component, "post_processor");
  const std::string where = "post_processor " + type;
  if (type == "ByteLevel") return out;
  if (type == "TemplateProcessing") {
    out = ParseTemplate(*component, where);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    out.before = {PairId(*component, "cls", where)};
    out.after = {PairId(*component, "sep", where)};
  } else if (type == "Sequence") {
    for (const JsonValue& part : NeedArray(*component, "processors", where).items) {
      const PostProcessor inner = ParsePostProcessor(&part);
      out.before.insert(out.before.begin(), inner.before.begin(), inner.before.end());
      out.after.insert(out.after.end(), inner.after.begin(), inner.after.end());
    }
  } else {
    Fail(ErrorCode::kUnsupported,
         "tokenizer.json: post_processor \"{}\" is not supported; supported are "
         "TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing and Sequence",
         type);
  }
  if (out.before.size() + out.after.size() > kMaxAddedIds) {
    Fail(ErrorCode::kBadInput, "{}: adds {} tokens, at most {} are allowed", where,
         out.before.size() + out.after.size(), kMaxAddedIds);
  }
  return out;
}

}  // namespace mla
