#include "layers/decoder_layer.h"

#include "base/check.h"
#include "ops/rows.h"

namespace mla {
namespace {

void CheckFinite(OpContext& context, const MlaStep& step, const DecoderLayerArgs& args,
                 const float* x, const char* part) {
  const int64_t row = FirstNonFiniteRow(context, x, step.rows, args.hidden);
  if (row < 0) return;
  int64_t position = row;
  for (const AttentionItem& item : step.items) {
    if (row >= item.first_row) position = item.position + row - item.first_row;
  }
  Fail(ErrorCode::kNumeric,
       "layer {} ({}): NaN or infinity at position {}; expected finite values. The weights of this "
       "layer are probably damaged: compare the file's checksum with its source. If they are not, "
       "its values exceed a 16-bit cache: try --cache-type f32",
       args.layer, part, position);
}

}  // namespace

void DecoderLayer(OpContext& context, const MlaStep& step, const DecoderLayerArgs& args,
                  MlaBuffers& attention, MlpBuffers& mlp, float* x) {
  const LayerWeights& w = *args.weights;
  const int64_t hidden = args.hidden;
  RmsNormRows(context, x, hidden, w.input_norm, args.norm_eps, args.normed, hidden, step.rows,
              hidden);
  MlaAttention(context, step, w.attention, *args.fold, args.layer, attention, args.normed, x);
  CheckFinite(context, step, args, x, "self_attn");
  RmsNormRows(context, x, hidden, w.post_attention_norm, args.norm_eps, args.normed, hidden,
              step.rows, hidden);
  if (w.is_moe) {
    Moe(context, *args.router, w.moe, mlp, args.normed, step.rows, hidden, x);
  } else {
    Mlp(context, w.mlp, mlp, args.normed, step.rows, hidden, x);
  }
  CheckFinite(context, step, args, x, "mlp");
}

}  // namespace mla
