// Reads the safetensors files of tests/data that tests made known to be right: no checks beyond
// what keeps a wrong test from reading at random. The library's own reader is in the room io.
// Called by: tests of attention. Thread-safety: immutable after construction.
#ifndef MLA_TESTS_SUPPORT_TENSOR_FILE_H_
#define MLA_TESTS_SUPPORT_TENSOR_FILE_H_

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/float16.h"
#include "support/temp_dir.h"

namespace mla {

class TensorFile {
 public:
  explicit TensorFile(const std::string& path) : bytes_(ReadWholeFile(path)) {
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), 8);
    data_ = 8 + static_cast<size_t>(length);
    header_ = nlohmann::json::parse(bytes_.substr(8, length));
  }

  bool Has(const std::string& name) const { return header_.contains(name); }
  std::vector<int64_t> Shape(const std::string& name) const {
    return header_.at(name).at("shape").get<std::vector<int64_t>>();
  }
  /// The elements of F64, F32, BF16, I8 or I32, each exact in double.
  std::vector<double> Values(const std::string& name) const {
    const nlohmann::json& entry = header_.at(name);
    const std::string dtype = entry.at("dtype");
    const size_t begin = data_ + entry.at("data_offsets").at(0).get<size_t>();
    const size_t end = data_ + entry.at("data_offsets").at(1).get<size_t>();
    const auto read = [&]<typename T>(T, auto convert) {
      std::vector<double> values;
      for (size_t at = begin; at < end; at += sizeof(T)) {
        T element{};
        std::memcpy(&element, bytes_.substr(at, sizeof(T)).data(), sizeof(T));
        values.push_back(convert(element));
      }
      return values;
    };
    const auto plain = [](auto x) { return static_cast<double>(x); };
    if (dtype == "F64") return read(double{}, plain);
    if (dtype == "F32") return read(float{}, plain);
    if (dtype == "I32") return read(int32_t{}, plain);
    if (dtype == "I8") return read(int8_t{}, plain);
    if (dtype == "BF16") return read(uint16_t{}, [](uint16_t x) { return double{Bf16ToFloat(x)}; });
    throw std::runtime_error("TensorFile: " + dtype + " of " + name);
  }
  std::vector<float> Floats(const std::string& name) const {
    const std::vector<double> values = Values(name);
    return {values.begin(), values.end()};
  }

 private:
  std::string bytes_;
  size_t data_ = 0;
  nlohmann::json header_;
};

}  // namespace mla

#endif  // MLA_TESTS_SUPPORT_TENSOR_FILE_H_
