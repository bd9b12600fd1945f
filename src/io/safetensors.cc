#include "io/safetensors.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/json_depth.h"
#include "io/json_file.h"

namespace mla {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxRank = 32;
constexpr int64_t kLengthBytes = 8;  // u64 little-endian in front of the header

std::string Quoted(const std::string& name) { return '"' + Printable(name) + '"'; }

// Event handler for {"name": {"dtype": s, "shape": [..], "data_offsets": [b, e]}, "__metadata__":
// {s: s}}. Events rather than a tree: a hostile header of 100 MB costs no more than its entries.
class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  struct Tensor {
    SafetensorsEntry entry;
    std::vector<int64_t> offsets;
    bool has_dtype = false;
    bool has_shape = false;
    bool has_offsets = false;
  };

  explicit HeaderHandler(const std::string& path) : path_(path) {}
  std::vector<Tensor>& tensors() { return tensors_; }

  bool null() override { return Scalar("null"); }
  bool boolean(bool) override { return Scalar("a boolean"); }
  bool number_float(double, const std::string&) override { return Scalar("a fraction"); }
  bool binary(Json::binary_t&) override { return Scalar("binary data"); }
  bool number_integer(int64_t value) override {
    if (skipping_ > 0) return true;
    if (state_ != State::kList) return Scalar("a number");
    Fault(fmt::format("{} holds {}; expected integers from 0 to {}", field_, value,
                      std::numeric_limits<int64_t>::max()));
  }
  bool number_unsigned(uint64_t value) override {
    if (skipping_ > 0) return true;
    if (state_ != State::kList) return Scalar("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      Fault(fmt::format("{} holds {}; expected integers from 0 to {}", field_, value,
                        std::numeric_limits<int64_t>::max()));
    }
    auto& list = field_ == "shape" ? tensors_.back().entry.shape : tensors_.back().offsets;
    if (list.size() >= kMaxRank) {
      Fault(fmt::format("{} has more than {} entries", field_, kMaxRank));
    }
    list.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool string(std::string& value) override {
    if (state_ != State::kTensor || field_ != "dtype" || skipping_ > 0) {
      return state_ == State::kMetadata || Scalar("a string");
    }
    const auto dtype = ParseSafetensorsDType(value);
    if (!dtype) {
      Fail(ErrorCode::kUnsupported, "{}: tensor {} has the unknown dtype {}", path_, Quoted(name_),
           Quoted(value));
    }
    tensors_.back().entry.dtype = *dtype;
    return true;
  }
  bool start_object(size_t) override {
    if (Skip(+1)) return true;
    if (state_ == State::kTop) {
      state_ = State::kNames;
    } else if (state_ == State::kNames) {
      state_ = name_ == "__metadata__" ? State::kMetadata : State::kTensor;
      if (state_ == State::kTensor) {
        tensors_.emplace_back();
        tensors_.back().entry.name = name_;
      }
    } else {
      Scalar("an object");
    }
    return true;
  }
  bool end_object() override {
    if (Skip(-1)) return true;
    if (state_ == State::kTensor) {
      const Tensor& t = tensors_.back();
      if (!t.has_dtype) Fault("dtype is missing");
      if (!t.has_shape) Fault("shape is missing");
      if (!t.has_offsets) Fault("data_offsets is missing");
      if (t.offsets.size() != 2) {
        Fault(fmt::format("data_offsets has {} entries; expected 2", t.offsets.size()));
      }
    }
    state_ = state_ == State::kNames ? State::kTop : State::kNames;
    return true;
  }
  bool start_array(size_t) override {
    if (Skip(+1)) return true;
    if (state_ != State::kTensor || (field_ != "shape" && field_ != "data_offsets")) {
      return Scalar("a list");
    }
    state_ = State::kList;
    return true;
  }
  bool end_array() override {
    if (Skip(-1)) return true;
    state_ = State::kTensor;
    return true;
  }
  bool key(std::string& value) override {
    if (skipping_ > 0) return true;
    if (state_ == State::kNames) {
      if (!names_.insert(value).second) {
        Fail(ErrorCode::kBadInput, "{}: tensor {} appears twice in the header", path_,
             Quoted(value));
      }
      name_ = value;
    } else if (state_ == State::kTensor) {
      Tensor& t = tensors_.back();
      bool* seen = value == "dtype"          ? &t.has_dtype
                   : value == "shape"        ? &t.has_shape
                   : value == "data_offsets" ? &t.has_offsets
                                             : nullptr;
      if (seen != nullptr && *seen) Fault(fmt::format("{} appears twice", value));
      if (seen != nullptr) *seen = true;
      field_ = seen != nullptr ? value : std::string();
    }
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    Fail(ErrorCode::kBadInput, "{}: the header is not valid JSON: error at its byte {}", path_,
         position);
  }

 private:
  enum class State { kTop, kNames, kMetadata, kTensor, kList };

  [[noreturn]] void Fault(const std::string& what) const {
    Fail(ErrorCode::kBadInput, "{}: tensor {}: {}", path_, Quoted(name_), what);
  }

  // A value where the format wants another kind; fields that it does not know are passed over, as
  // the reference implementation does.
  bool Scalar(std::string_view found) const {
    if (skipping_ > 0 || (state_ == State::kTensor && field_.empty())) return true;
    switch (state_) {
      case State::kTop:
        Fail(ErrorCode::kBadInput, "{}: the header is {}; expected an object", path_, found);
      case State::kNames:
        Fault(fmt::format("found {}; expected an object", found));
      case State::kMetadata:
        Fail(ErrorCode::kBadInput, "{}: __metadata__ holds {}; expected strings only", path_,
             found);
      default:
        Fault(fmt::format("{} is or holds {}; expected {}", field_, found,
                          field_ == "dtype" ? "a string" : "a list of integers"));
    }
  }

  // Depth inside the value of an unknown field; true if the event belongs to it.
  bool Skip(int step) {
    const bool inside = skipping_ > 0 || (step > 0 && state_ == State::kTensor && field_.empty());
    if (inside) skipping_ += step;
    return inside;
  }

  const std::string& path_;
  State state_ = State::kTop;
  int skipping_ = 0;
  std::string name_;
  std::string field_;
  std::set<std::string> names_;
  std::vector<Tensor> tensors_;
};

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  return text + "]";
}

int64_t TensorBytes(DType dtype, const std::vector<int64_t>& shape, const std::string& what) {
  int64_t bytes = DTypeSize(dtype);
  for (int64_t dim : shape) bytes = CheckedMul(bytes, dim, what);
  return bytes;
}

// Length of the JSON header, after everything that can be checked without reading it.
int64_t HeaderLength(std::span<const uint8_t> file, const std::string& path) {
  const int64_t size = static_cast<int64_t>(file.size());
  if (size < kLengthBytes) {
    Fail(ErrorCode::kBadInput, "{}: {} bytes are too few for a safetensors file; is it truncated?",
         path, size);
  }
  uint64_t length = 0;
  for (int i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(file[i]) << (8 * i);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader)) {
    Fail(ErrorCode::kBadInput,
         "{}: the header claims {} bytes; expected at most {}. Is it a safetensors file?", path,
         length, kMaxSafetensorsHeader);
  }
  if (static_cast<int64_t>(length) > size - kLengthBytes) {
    Fail(ErrorCode::kBadInput,
         "{}: the header claims {} bytes, the file has only {} after its length field; is it "
         "truncated?",
         path, length, size - kLengthBytes);
  }
  return static_cast<int64_t>(length);
}

// Sizes of the single tensors, then the layout: sorted by offset they must touch each other.
void CheckLayout(std::vector<HeaderHandler::Tensor>& tensors, int64_t data_bytes,
                 const std::string& path) {
  for (const auto& t : tensors) {
    const std::string what = fmt::format("{}: tensor {}", path, Quoted(t.entry.name));
    const int64_t begin = t.offsets[0];
    const int64_t end = t.offsets[1];
    if (end < begin) {
      Fail(ErrorCode::kBadInput, "{}: data_offsets [{}, {}] run backwards", what, begin, end);
    }
    const int64_t bytes = TensorBytes(t.entry.dtype, t.entry.shape, what + ": size in bytes");
    if (end - begin != bytes) {
      Fail(ErrorCode::kBadInput,
           "{}: data_offsets [{}, {}] span {} bytes; dtype {} x shape {} needs {}", what, begin,
           end, end - begin, DTypeName(t.entry.dtype), ShapeText(t.entry.shape), bytes);
    }
    if (end > data_bytes) {
      Fail(ErrorCode::kBadInput,
           "{}: data_offsets [{}, {}] reach beyond the {} bytes of data in the file; is it "
           "truncated?",
           what, begin, end, data_bytes);
    }
  }
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::tie(a.offsets, a.entry.name) < std::tie(b.offsets, b.entry.name);
  });
  int64_t covered = 0;
  for (const auto& t : tensors) {
    if (t.offsets[0] != covered) {
      Fail(ErrorCode::kBadInput, "{}: tensor {} begins at byte {} of the data; expected {} ({})",
           path, Quoted(t.entry.name), t.offsets[0], covered,
           t.offsets[0] < covered ? "it overlaps the one before" : "bytes between belong to none");
    }
    covered = t.offsets[1];
  }
  if (covered != data_bytes) {
    Fail(ErrorCode::kBadInput, "{}: {} bytes of data, of which the tensors cover {}", path,
         data_bytes, covered);
  }
}

}  // namespace

std::vector<SafetensorsEntry> ParseSafetensors(std::span<const uint8_t> file,
                                               const std::string& path) {
  const int64_t length = HeaderLength(file, path);
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                                static_cast<size_t>(length));
  if (header.empty() || header[0] != '{') {
    Fail(ErrorCode::kBadInput, "{}: the header does not begin with '{{'; is it a safetensors file?",
         path);
  }
  const int depth = MaxJsonDepth(header);
  if (depth > kMaxJsonDepth) {
    Fail(ErrorCode::kBadInput, "{}: the header is nested {} deep; expected at most {}", path, depth,
         kMaxJsonDepth);
  }
  // The parser takes a NUL for the end of the text, and so would pass over what follows.
  if (header.find('\0') != std::string_view::npos) {
    Fail(ErrorCode::kBadInput, "{}: the header is not valid JSON: it contains a NUL", path);
  }
  HeaderHandler handler(path);
  Json::sax_parse(header.begin(), header.end(), &handler);
  const int64_t data_begin = kLengthBytes + length;
  CheckLayout(handler.tensors(), static_cast<int64_t>(file.size()) - data_begin, path);
  std::vector<SafetensorsEntry> entries;
  entries.reserve(handler.tensors().size());
  for (auto& t : handler.tensors()) {
    t.entry.offset = data_begin + t.offsets[0];
    t.entry.bytes = t.offsets[1] - t.offsets[0];
    entries.push_back(std::move(t.entry));
  }
  return entries;
}

}  // namespace mla
