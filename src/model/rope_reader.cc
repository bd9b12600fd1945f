#include "model/rope_reader.h"

#include <optional>
#include <string>

#include "base/check.h"

namespace mla {
namespace {

constexpr double kDefaultTheta = 10000;
constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxPositions = int64_t{1} << 40;

// One spelling, with every default filled in, so that two of them can be compared.
struct Spelling {
  bool yarn = false;
  double theta = kDefaultTheta;
  double factor = 1;
  int64_t original = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
  std::optional<double> attention_factor;
  double mscale = 0;  // 0: absent
  double mscale_all_dim = 0;

  bool operator==(const Spelling&) const = default;
};

// Absent, null and 0 all mean the default, as in the reference's `get(key) or default`.
double NumberOr(const JsonObject& object, const char* key, double most, double fallback) {
  const double value = object.HasValue(key) ? object.Number(key, 0, most) : 0;
  return value == 0 ? fallback : value;
}

std::string RopeType(const JsonObject& rope) {
  const bool old_key = rope.HasValue("type");
  const bool new_key = rope.HasValue("rope_type");
  if (old_key && new_key && rope.String("type") != rope.String("rope_type")) {
    rope.Reject("type", "the same as rope_type, '" + rope.String("rope_type") + "'");
  }
  if (new_key) return rope.String("rope_type");
  if (old_key) return rope.String("type");
  if (rope.HasValue("factor")) rope.Reject("rope_type", "the type that the factor belongs to");
  return "default";
}

double Theta(const JsonObject& config, const JsonObject* rope) {
  const bool outer = config.HasValue("rope_theta");
  const bool inner = rope != nullptr && rope->HasValue("rope_theta");
  // ln theta is a divisor in YaRN, and a theta of 1 turns every pair alike.
  const double least = 1.0 + 1e-6;
  const double outer_theta = outer ? config.Number("rope_theta", least, kMaxTheta) : kDefaultTheta;
  if (!inner) return outer_theta;
  const double theta = rope->Number("rope_theta", least, kMaxTheta);
  if (outer && theta != outer_theta) {
    rope->Reject("rope_theta", fmt::format("the same as the outer rope_theta, {}", outer_theta));
  }
  return theta;
}

Spelling ReadSpelling(const JsonObject& config, const JsonObject& rope, int64_t max_positions) {
  Spelling s;
  s.theta = Theta(config, &rope);
  const std::string type = RopeType(rope);
  if (type == "default") return s;
  if (type != "yarn") {
    rope.Refuse(rope.HasValue("rope_type") ? "rope_type" : "type", "'default' or 'yarn'");
  }
  s.yarn = true;
  s.factor = rope.Number("factor", 1, kMaxFactor);
  s.original = rope.HasValue("original_max_position_embeddings")
                   ? rope.Int("original_max_position_embeddings", 1, kMaxPositions)
                   : max_positions;
  s.beta_fast = NumberOr(rope, "beta_fast", 1e6, 32);
  s.beta_slow = NumberOr(rope, "beta_slow", 1e6, 1);
  if (s.beta_fast < s.beta_slow) {
    rope.Reject("beta_fast", fmt::format("at least beta_slow, {}", s.beta_slow));
  }
  s.truncate = rope.Bool("truncate", true);
  if (rope.HasValue("attention_factor")) {
    s.attention_factor = rope.Number("attention_factor", 1e-6, 1e6);
  }
  s.mscale = NumberOr(rope, "mscale", 1e3, 0);
  s.mscale_all_dim = NumberOr(rope, "mscale_all_dim", 1e3, 0);
  return s;
}

// cos and sin carry m(f, mscale) / m(f, mscale_all_dim) only if both keys are there; with one alone
// the reference falls back to m(f, 1).
double AttentionFactor(const Spelling& s) {
  if (!s.yarn) return 1;
  if (s.attention_factor) return *s.attention_factor;
  if (s.mscale != 0 && s.mscale_all_dim != 0) {
    return YarnMagnitude(s.factor, s.mscale) / YarnMagnitude(s.factor, s.mscale_all_dim);
  }
  return YarnMagnitude(s.factor, 1);
}

}  // namespace

RopeSettings ReadRope(const JsonObject& config, int64_t max_positions) {
  std::optional<Spelling> spelling;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.HasValue(key)) continue;
    const JsonObject rope = config.Object(key);
    if (rope.Empty()) continue;
    const Spelling read = ReadSpelling(config, rope, max_positions);
    if (spelling && !(*spelling == read)) {
      config.Reject("rope_parameters", "what rope_scaling says; keep one of the two");
    }
    spelling = read;
  }
  if (!spelling) {
    spelling.emplace();
    spelling->theta = Theta(config, nullptr);
  }
  RopeSettings settings;
  RopeConfig& rope = settings.config;
  rope.type = spelling->yarn ? RopeType::kYarn : RopeType::kDefault;
  rope.theta = spelling->theta;
  rope.factor = spelling->factor;
  rope.original_max_positions = spelling->original;
  rope.beta_fast = spelling->beta_fast;
  rope.beta_slow = spelling->beta_slow;
  rope.truncate = spelling->truncate;
  rope.attention_factor = AttentionFactor(*spelling);
  if (spelling->mscale_all_dim != 0) {
    const double m = YarnMagnitude(spelling->factor, spelling->mscale_all_dim);
    settings.mscale_squared = m * m;
  }
  return settings;
}

}  // namespace mla
