// SPDX-License-Identifier: Apache-2.0
#include "model/sam3/repack.h"

#include <algorithm>
#include <string>
#include <vector>

#include "model/sam3/repack_packer.h"

namespace npuseg::sam3 {

using checkpoint::HiddenAct;
using core::Code;
using core::Status;

namespace {

// Collects what does not fit, to say all of it at once.
class Comparison {
 public:
  void same(const char* param, size_t bundle, size_t model) {
    if (bundle != model) {
      add(core::format("%s is %zu in the bundle, %zu in the model", param, bundle, model));
    }
  }
  void same(const char* param, float bundle, float model) {
    if (bundle != model) {
      add(core::format("%s is %g in the bundle, %g in the model", param,
                       static_cast<double>(bundle), static_cast<double>(model)));
    }
  }
  void need(bool holds, const std::string& what) {
    if (!holds) add(what);
  }
  [[nodiscard]] Status status(const std::string& where) const {
    if (faults_ == 0) return {};
    return Status(Code::kUnsupported, "cannot repack: " + where + ": " + text_ +
                                          "; use a bundle exported for this kind of model");
  }

 private:
  void add(const std::string& fault) {
    constexpr size_t kNamed = 5;
    if (faults_ < kNamed) text_ += (faults_ == 0 ? "" : ", ") + fault;
    if (faults_ == kNamed) text_ += " and more";
    ++faults_;
  }
  std::string text_;
  size_t faults_ = 0;
};

bool is_gelu(HiddenAct act) { return act == HiddenAct::kGelu || act == HiddenAct::kGeluTanh; }

}  // namespace

Status check_repack(const Model& model, const bundle::Bundle& kernels, const std::string& where) {
  const Sam3Config& config = model.config();
  const bundle::Sam3Params& p = kernels.sam3().params;
  const auto& vit = config.vit;
  Comparison fit;
  fit.same("image_size", p.image_size, vit.image_size);
  fit.same("patch", p.patch, vit.patch_size);
  fit.same("window", p.window, vit.window_size);
  fit.same("vit_dim", p.vit_dim, vit.hidden_size);
  fit.same("vit_heads", p.vit_heads, vit.heads);
  fit.same("vit_layers", p.vit_layers, vit.layers);
  fit.same("vit_eps", p.vit_eps, vit.layer_norm_eps);
  fit.need(p.vit_global == vit.global_layers, "the layers with global attention differ");
  fit.need(p.vit_ffn_pad >= vit.intermediate_size,
           core::format("vit_ffn_pad %zu is below the model's %zu", p.vit_ffn_pad,
                        vit.intermediate_size));
  fit.same("head width of mha_win", kernels.sam3().mhas.find("mha_win")->second.d, vit.head_dim());
  fit.same("d_model", p.d_model, config.hidden_size);
  fit.same("d_layers", p.d_layers, config.detr_encoder.layers);
  fit.same("d_heads", p.d_heads, config.detr_encoder.heads);
  fit.same("d_heads", p.d_heads, config.detr_decoder.heads);
  fit.same("d_heads", p.d_heads, config.mask_heads);
  fit.same("d_ffn", p.d_ffn, config.detr_decoder.intermediate_size);
  fit.same("dec_layers", p.dec_layers, config.detr_decoder.layers);
  fit.same("queries", p.queries, config.queries);
  fit.same("text_len", p.text_len, config.text.positions);
  fit.same("text_dim", p.text_dim, config.text.hidden_size);
  fit.same("text_heads", p.text_heads, config.text.heads);
  fit.same("text_layers", p.text_layers, config.text.layers);
  fit.same("text_ffn", p.text_ffn, config.text.intermediate_size);
  fit.same("text_eps", p.text_eps, config.text.layer_norm_eps);
  fit.need(config.scale_factors == std::vector<double>({4.0, 2.0, 1.0, 0.5}),
           "the neck's scale factors are not 4, 2, 1, 0.5");
  const std::vector<size_t> splits = {vit.hidden_size * 2, config.hidden_size * 4,
                                      config.hidden_size};
  fit.need(p.neck_splits == splits, "neck_splits are not those of the model's neck");
  fit.need(is_gelu(vit.act), "the ViT's activation is not GELU");
  fit.need(config.text.act == HiddenAct::kGelu, "the text encoder's activation is not GELU");
  fit.need(
      config.detr_encoder.act == HiddenAct::kRelu && config.detr_decoder.act == HiddenAct::kRelu,
      "the DETR layers' activation is not ReLU");
  return fit.status(where);
}

Status repack_tensors(core::Call& call, const Model& model, const bundle::Bundle& kernels,
                      bundle::Writer* out) {
  Packer packer(call, model, kernels, out);
  const auto& config = model.config();
  // Packed matrices, of which the call is told.
  call.begin_stage(static_cast<uint32_t>(Stage::kLoad),
                   1 + 4 * config.vit.layers + 5 + 4 * config.detr_encoder.layers + 1 + 2);
  NPUSEG_RETURN_IF_ERROR(repack_vit(packer));
  NPUSEG_RETURN_IF_ERROR(repack_neck(packer));
  NPUSEG_RETURN_IF_ERROR(repack_text(packer));
  NPUSEG_RETURN_IF_ERROR(repack_encoder(packer));
  NPUSEG_RETURN_IF_ERROR(repack_decoder(packer));
  return repack_masks(packer);
}

}  // namespace npuseg::sam3
