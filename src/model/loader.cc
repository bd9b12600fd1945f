#include "model/loader.h"

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <unordered_set>

#include "base/check.h"
#include "base/float16.h"
#include "io/json_file.h"
#include "model/weight_names.h"

namespace mla {
namespace {

constexpr int64_t kAlignment = 64;

int64_t Padded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text;
  for (int64_t dim : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", dim);
  return "[" + text + "]";
}

// One kind of fault: the first names in full, the rest as a count.
class FaultList {
 public:
  void Add(const std::string& text) {
    if (++count_ > kListed) return;
    listed_ += (count_ == 1 ? "" : ", ") + text;
  }
  int64_t count() const { return count_; }
  void AppendTo(std::string& message, std::string_view title) const {
    if (count_ == 0) return;
    message += fmt::format("\n  {} {}: {}", count_, title, listed_);
    if (count_ > kListed) message += fmt::format(", ... and {} more", count_ - kListed);
  }

 private:
  static constexpr int64_t kListed = 20;
  int64_t count_ = 0;
  std::string listed_;
};

// Elements [0, count) of possibly misaligned data, as fp32.
void ConvertToFloat(const StoredTensor& tensor, float* out) {
  const int64_t count = tensor.bytes / DTypeSize(tensor.dtype);
  if (tensor.dtype == DType::kF32) {
    std::memcpy(out, tensor.data, static_cast<size_t>(tensor.bytes));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, tensor.data + 2 * i, sizeof(bits));
    out[i] = tensor.dtype == DType::kBf16 ? Bf16ToFloat(bits) : Fp16ToFloat(bits);
  }
}

class Loader {
 public:
  Loader(const ModelConfig& config, std::shared_ptr<const Checkpoint> checkpoint)
      : config_(config), weights_(std::make_shared<ModelWeights>()) {
    weights_->checkpoint = std::move(checkpoint);
  }

  std::shared_ptr<const ModelWeights> Load() {
    Resolve();
    ReportFaults();
    Bind();
    if (config_.tie_word_embeddings) weights_->lm_head = weights_->embedding;
    CheckRouterBiases();
    SumKinds();
    return weights_;
  }

 private:
  struct Binding {
    WeightSlot slot;
    const StoredTensor* tensor;
  };

  const Checkpoint& file() const { return *weights_->checkpoint; }

  // Finds a tensor for every slot; collects what does not fit.
  void Resolve() {
    for (WeightSlot& slot : TopSlots(config_, *weights_)) ResolveSlot(std::move(slot));
    weights_->layers.resize(static_cast<size_t>(config_.num_layers));
    for (int64_t l = 0; l < config_.num_layers; ++l) {
      // A configuration may claim any number of layers and experts; names by the billion help
      // nobody.
      constexpr int64_t kEnough = 10'000;
      if (missing_.count() > kEnough) {
        stopped_at_ = l;
        return;
      }
      const bool packed = file().Find(PackedExpertsName(l)) != nullptr;
      LayerWeights& layer = weights_->layers[static_cast<size_t>(l)];
      for (WeightSlot& slot : LayerSlots(config_, l, packed, layer)) ResolveSlot(std::move(slot));
    }
    for (const auto& [name, tensor] : file().tensors()) {
      if (!used_.contains(&tensor) && !IsIgnoredTensor(config_, name))
        unexpected_.Add(Printable(name));
    }
  }

  void ResolveSlot(WeightSlot slot) {
    const StoredTensor* tensor = file().Find(slot.name);
    if (tensor == nullptr) {
      missing_.Add(fmt::format("{} {}", slot.name, ShapeText(slot.shape)));
      return;
    }
    used_.insert(tensor);
    if (tensor->shape != slot.shape) {
      misshaped_.Add(fmt::format("{} is {}, expected {}", slot.name, ShapeText(tensor->shape),
                                 ShapeText(slot.shape)));
    } else if (!IsDenseFloat(tensor->dtype)) {
      mistyped_.Add(fmt::format("{} is {}", slot.name, DTypeName(tensor->dtype)));
    } else {
      bindings_.push_back({std::move(slot), tensor});
    }
  }

  void ReportFaults() const {
    std::string faults;
    missing_.AppendTo(faults, "missing");
    unexpected_.AppendTo(faults, "unexpected");
    misshaped_.AppendTo(faults, "of another shape");
    mistyped_.AppendTo(faults, "of a type other than f32, f16 and bf16");
    if (faults.empty()) return;
    if (stopped_at_ > 0) {
      faults += fmt::format("\n  layers {} to {} were not looked at any more", stopped_at_,
                            config_.num_layers - 1);
    }
    const std::string directory =
        file().files().empty()
            ? std::string("checkpoint")
            : std::filesystem::path(file().files()[0].path()).parent_path().string();
    Fail(ErrorCode::kBadInput,
         "{}: the tensors do not fit config.json ({}); are both of the same model, and complete?{}",
         directory, config_.family, faults);
  }

  static bool Copied(const Binding& b) {
    if (b.slot.vector != nullptr) return true;
    const auto address = reinterpret_cast<uintptr_t>(b.tensor->data);
    return address % static_cast<uintptr_t>(DTypeSize(b.tensor->dtype)) != 0;
  }

  static int64_t Elements(const Binding& b) { return b.tensor->bytes / DTypeSize(b.tensor->dtype); }

  static int64_t UsedBytes(const Binding& b) {
    return b.slot.vector != nullptr ? Elements(b) * int64_t{sizeof(float)} : b.tensor->bytes;
  }

  // All copies share one buffer, so that small ones cost no page each.
  void Bind() {
    int64_t total = 0;
    for (const Binding& b : bindings_) {
      if (Copied(b)) total = CheckedAdd(total, Padded(UsedBytes(b)), "copied weights");
    }
    char* next = nullptr;
    if (total > 0) {
      weights_->buffers.emplace_back(total);
      next = weights_->buffers.back().as<char>();
    }
    for (const Binding& b : bindings_) {
      const void* data = b.tensor->data;
      if (Copied(b)) {
        if (b.slot.vector != nullptr) {
          ConvertToFloat(*b.tensor, reinterpret_cast<float*>(next));
        } else {
          std::memcpy(next, b.tensor->data, static_cast<size_t>(b.tensor->bytes));
        }
        data = next;
        next += Padded(UsedBytes(b));
        weights_->converted_bytes += UsedBytes(b);
      } else {
        weights_->mapped_bytes += UsedBytes(b);
      }
      Assign(b, data);
    }
  }

  static WeightView View(const void* data, int64_t rows, int64_t cols, DType dtype) {
    return {data, rows, cols, cols, dtype};
  }

  static void Assign(const Binding& b, const void* data) {
    const WeightSlot& slot = b.slot;
    const DType dtype = b.tensor->dtype;
    if (slot.vector != nullptr) {
      *slot.vector = static_cast<const float*>(data);
    } else if (slot.matrix != nullptr) {
      *slot.matrix = View(data, slot.shape[0], slot.shape[1], dtype);
    } else {
      const int64_t experts = slot.shape[0];
      const int64_t rows = slot.shape[1];
      const WeightView all = View(data, experts * rows, slot.shape[2], dtype);
      slot.packed->resize(static_cast<size_t>(experts));
      for (int64_t e = 0; e < experts; ++e) {
        MlpWeights& expert = (*slot.packed)[static_cast<size_t>(e)];
        if (slot.packed_up) {
          expert.gate = all.Rows(e * rows, rows / 2);
          expert.up = all.Rows(e * rows + rows / 2, rows / 2);
        } else {
          expert.down = all.Rows(e * rows, rows);
        }
      }
    }
  }

  void CheckRouterBiases() const {
    for (const Binding& b : bindings_) {
      if (b.slot.group != WeightGroup::kRouter || b.slot.vector == nullptr) continue;
      const float* bias = *b.slot.vector;
      for (int64_t i = 0; i < Elements(b); ++i) {
        if (std::isfinite(bias[i])) continue;
        Fail(ErrorCode::kBadInput,
             "{}: {}[{}] is {}; expected a finite number. Is the file damaged?",
             file().files()[static_cast<size_t>(b.tensor->shard)].path(), b.slot.name, i, bias[i]);
      }
    }
  }

  void SumKinds() {
    std::array<WeightKind, kWeightGroups> sums;
    for (const Binding& b : bindings_) {
      WeightKind& sum = sums[static_cast<size_t>(b.slot.group)];
      sum.bytes += UsedBytes(b);
      sum.parameters += Elements(b);
    }
    for (int g = 0; g < kWeightGroups; ++g) {
      WeightKind& sum = sums[static_cast<size_t>(g)];
      if (sum.bytes == 0) continue;
      sum.kind = WeightGroupName(static_cast<WeightGroup>(g));
      weights_->kinds.push_back(std::move(sum));
    }
  }

  const ModelConfig& config_;
  std::shared_ptr<ModelWeights> weights_;
  std::vector<Binding> bindings_;
  std::unordered_set<const StoredTensor*> used_;
  int64_t stopped_at_ = 0;
  FaultList missing_;
  FaultList unexpected_;
  FaultList misshaped_;
  FaultList mistyped_;
};

}  // namespace

std::shared_ptr<const ModelWeights> LoadWeights(const ModelConfig& config,
                                                std::shared_ptr<const Checkpoint> checkpoint) {
  return Loader(config, std::move(checkpoint)).Load();
}

}  // namespace mla
