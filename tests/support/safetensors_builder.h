// Safetensors files byte by byte, right or wrong on purpose.
// Called by: tests. Thread-safety: one thread.
#ifndef MLA_TESTS_SUPPORT_SAFETENSORS_BUILDER_H_
#define MLA_TESTS_SUPPORT_SAFETENSORS_BUILDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

namespace mla {

/// A file of the given parts, with a length field that is true.
inline std::string RawSafetensors(std::string_view header, std::string_view data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  file += header;
  file += data;
  return file;
}

/// Builds a correct file tensor by tensor; the header's text stays accessible for damage.
class SafetensorsBuilder {
 public:
  /// `dtype` as the format spells it; `bytes` is the raw data.
  SafetensorsBuilder& Add(const std::string& name, const std::string& dtype,
                          const std::vector<int64_t>& shape, std::string_view bytes) {
    std::string dims;
    for (int64_t dim : shape) dims += fmt::format("{}{}", dims.empty() ? "" : ",", dim);
    header_ += header_.empty() ? "{" : ",";
    header_ += fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name,
                           dtype, dims, data_.size(), data_.size() + bytes.size());
    data_ += bytes;
    return *this;
  }

  /// `extra_spaces` pad the header, which shifts the data's alignment.
  std::string Bytes(int extra_spaces = 0) const {
    const std::string open = header_.empty() ? "{" : header_;
    return RawSafetensors(open + "}" + std::string(static_cast<size_t>(extra_spaces), ' '), data_);
  }

 private:
  std::string header_;
  std::string data_;
};

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_SAFETENSORS_BUILDER_H_
