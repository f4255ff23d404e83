#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/sam3/golden/stages_*.safetensors: what every stage of transformers' Sam3Model
gives in float64 on small random models, and how far its own float32 run is from that.

usage: sam3_stages.py [--check] [CASE ...]

Weights follow the hash of tests/support/hash_weights.cc, so the files hold no weights. Tensors of a
file (all values little-endian):
  config               U8   text of config.json with "@VIT@", "@ENCODER@" and "@DECODER@" in place
                            of the numbers of layers, "layers" I64 [3] holds the whole model's
  target               I64  height and width of the picture that masks are resized to
  STAGE                F64  values, or SAMPLES of them (see sample()) when there are more
  STAGE#               F64  number of values, largest |float32 - float64|, least and largest value;
                            the three are taken over all values of the stage, and of FEW stages
                            over all prompts
  pP.ids, pP.boxes_in, pP.labels    the prompt (valid ids; cx, cy, w, h of float32 precision)
  pP.threshold, pP.kept             score threshold and the queries above it
  pP.bits, pP.open                  masks of the kept queries and the semantic map at target size,
                            one bit a pixel; open: pixels within 1e-4 of the threshold
Stages are in npuseg's layout: [tokens, channels], maps row by row with channels last.

--check computes everything again and compares: float64 values to 1e-10 of the stage's range, the
float32 errors (they depend on the processor) within a factor of 4.
"""

import argparse
import contextlib
import json
import math
import pathlib
import sys
import tempfile
import warnings
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Sam3Config, Sam3ImageProcessor, Sam3Model
from transformers.models.sam3 import modeling_sam3 as reference
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")
torch.set_num_threads(1)

OUT = pathlib.Path(__file__).resolve().parent.parent / "unit" / "sam3" / "golden"
SAMPLES = 256
STEP = 15485863  # a prime: every sample is another value
# Stages whose values within a prompt share one error (of the presence token, of the prompt's mean):
# one prompt is one draw, so their statistics are those of all prompts of the case.
FEW = ("presence", "logits", "scores")
SLACK = 1e-4  # of a probability, around the mask threshold

UNIT_WIDTH = ("embeddings.position_embeddings", "token_embedding.weight",
              "position_embedding.weight", "label_embed.weight", "cls_embed.weight",
              "query_embed.weight", "reference_points.weight", "presence_token.weight")


def hash_values(name, shape):
    h = 14695981039346656037
    for byte in name.encode():
        h = ((h ^ byte) * 1099511628211) % 2**64
    count = math.prod(shape)
    centre, width = 0.0, 0.1
    if len(shape) == 1:
        centre = 1.0 if name.endswith("weight") else 0.0
    elif name.endswith(UNIT_WIDTH):
        width = 1.0
    else:
        fan = shape[0] if "scale_layers" in name else count // shape[0]
        width = math.sqrt(3.0 / fan)
    z = np.arange(count, dtype=np.uint64) + np.uint64((h + 0x9E3779B97F4A7C15) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    r = 2.0 * ((z >> np.uint64(40)).astype(np.float64) * 2.0**-24) - 1.0
    return (centre + width * r).astype(np.float32).reshape(shape)


def config_of(vit, scales, text, width, layers, heads, queries, roi=7):
    """layers: ViT, geometry, DETR encoder, DETR decoder; heads: of the three and the masks."""
    common = {"hidden_size": width, "hidden_act": "relu", "intermediate_size": width * 3 // 2}
    return {
        "model_type": "sam3", "architectures": ["Sam3Model"],
        "vision_config": {
            "model_type": "sam3_vision_model", "fpn_hidden_size": width, "scale_factors": scales,
            "backbone_config": {
                "model_type": "sam3_vit_model", "num_channels": 3, "hidden_act": "gelu",
                "layer_norm_eps": 1e-6, "num_hidden_layers": layers[0],
                "rope_parameters": {"rope_type": "axial", "rope_theta": 10000.0}, **vit}},
        "text_config": {"model_type": "clip_text_model", "projection_dim": 20, "hidden_act": "gelu",
                        "layer_norm_eps": 1e-5, **text},
        "geometry_encoder_config": {
            "model_type": "sam3_geometry_encoder", "num_layers": layers[1], "roi_size": roi,
            "num_attention_heads": heads, **common},
        "detr_encoder_config": {"model_type": "sam3_detr_encoder", "num_layers": layers[2],
                                "num_attention_heads": heads, **common},
        "detr_decoder_config": {"model_type": "sam3_detr_decoder", "num_layers": layers[3],
                                "num_queries": queries, "num_attention_heads": heads, **common},
        "mask_decoder_config": {"model_type": "sam3_mask_decoder", "hidden_size": width,
                                "num_upsampling_stages": 3, "num_attention_heads": heads},
    }


def text_of(width, layers, heads, positions, act="gelu"):
    return {"vocab_size": 1000, "hidden_size": width, "intermediate_size": 4 * width,
            "num_hidden_layers": layers, "num_attention_heads": heads,
            "max_position_embeddings": positions, "hidden_act": act}


def vit_of(width, inner, heads, image, patch, window, globals_, pretrain):
    return {"hidden_size": width, "intermediate_size": inner, "num_attention_heads": heads,
            "image_size": image, "patch_size": patch, "window_size": window,
            "global_attn_indexes": globals_, "pretrain_image_size": pretrain}


# One positive, one negative, one that leaves the picture: (cx, cy, w, h), label.
BOXES = [((0.35, 0.46666667, 0.5, 0.53333333), 1), ((0.825, 0.23333333, 0.25, 0.33333333), 0),
         ((0.05, 0.9, 0.3, 0.4), 1)]


def ids_of(count, seed):
    return [998] + [(37 * i * i + 101 * i + seed) % 990 for i in range(count - 2)] + [999]


# Prompt: valid ids, boxes, whether the reference gets an attention mask (padding needs one).
def prompts_of(positions):
    return [(ids_of(5, 17), [], True), (ids_of(5, 17), BOXES[:2], True),
            (ids_of(positions, 3), [], False), (ids_of(3, 7), BOXES[2:], True),
            (ids_of(positions, 400), BOXES[1:], True)]


CASES = {
    # Windows do not divide the grid; the position table is smaller than the grid and no divisor.
    "padded": dict(
        config=config_of(vit_of(64, 96, 4, 112, 14, 3, [1, 3], 42), [4.0, 2.0, 1.0, 0.5],
                         text_of(48, 3, 4, 16), 32, (4, 2, 2, 3), 4, 7),
        target=(75, 100)),
    # Windows divide; eight heads, 32 text positions, deeper DETR.
    "even": dict(
        config=config_of(vit_of(64, 296, 4, 168, 14, 4, [2], 56), [4.0, 2.0, 1.0, 0.5],
                         text_of(64, 4, 4, 32), 64, (3, 3, 3, 4), 8, 17),
        target=(61, 47)),
    # Window larger than the grid; one kept level, no upsampling; quick GELU; RoI 3.
    "single": dict(
        config=config_of(vit_of(32, 56, 2, 70, 14, 8, [1], 28), [2.0, 1.0],
                         text_of(40, 2, 5, 32, "quick_gelu"), 32, (2, 1, 1, 2), 4, 5, roi=3),
        target=(64, 33)),
    # Weights in bfloat16, widened; a level at half the grid (max pooling) is the DETR level.
    "bf16": dict(
        config=config_of(vit_of(48, 96, 3, 144, 12, 5, [0, 2], 48), [4.0, 2.0, 1.0, 0.5, 0.5],
                         text_of(48, 2, 4, 32), 40, (3, 2, 2, 3), 5, 9),
        target=(100, 30), bf16=True),
    # The released model's picture, grid, windows, table and text length; narrow.
    "grid72": dict(
        config=config_of(vit_of(32, 48, 2, 1008, 14, 24, [1], 336), [4.0, 2.0, 1.0, 0.5],
                         text_of(32, 2, 2, 32), 16, (2, 1, 2, 2), 2, 11),
        target=(120, 90), prompts=3),
}


def pictures(side):
    y, x, c = np.meshgrid(np.arange(side), np.arange(side), np.arange(3), indexing="ij")
    u = ((x * (3 + 2 * c) + y * (5 - c) + 11 * c * c + x * y // 7) % 256).astype(np.float32)
    return torch.from_numpy(((u - np.float32(127.5)) / np.float32(127.5)).transpose(2, 0, 1)[None])


@contextlib.contextmanager
def double_rotation():
    """The reference rotates in float32 whatever the model's type is; in here in the model's."""
    def frequencies(config, device=None, **_):
        half = config.hidden_size // config.num_attention_heads // 2
        exponents = torch.arange(0, half, 2, dtype=torch.float64) / half
        return (config.rope_parameters["rope_theta"] ** -exponents).to(device), 1.0

    def positions(config, window_size):
        side = window_size if window_size > 0 else config.image_size // config.patch_size
        at = torch.arange(side, dtype=torch.float64) * config.window_size / side
        return torch.stack([at.repeat(side), at.repeat_interleave(side)], dim=-1)

    def table(self, x, position_ids):
        angles = (position_ids[:, :, None] * self.inv_freq).flatten(1)
        angles = angles.repeat_interleave(2, dim=-1)[None]
        return angles.cos(), angles.sin()

    def rotate(q, k, cos, sin):
        return tuple(t * cos + reference.rotate_pairwise(t) * sin for t in (q, k))

    rotary, layer = reference.Sam3ViTRotaryEmbedding, reference.Sam3ViTLayer
    with mock.patch.object(rotary, "compute_axial_rope_parameters", staticmethod(frequencies)), \
            mock.patch.object(rotary, "forward", table), \
            mock.patch.object(layer, "precompute_positions", staticmethod(positions)), \
            mock.patch.object(reference, "apply_rotary_pos_emb_2d", rotate):
        yield


class NoSingle(TorchDispatchMode):
    """Fails when any operation gives a float of less than 64 bits."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                assert value.dtype == torch.float64, f"{func} gives {value.dtype}"
        return result


class Recorder:
    """Outputs of named modules, as [rows, columns]."""

    def __init__(self, model):
        self.outputs = {}
        vision = model.vision_encoder
        self.hook("embed", vision.backbone.layer_norm)
        for i, layer in enumerate(vision.backbone.layers):
            self.hook(f"vit.{i}", layer)
            kind = "window" if layer.window_size else "global"
            self.hook(f"rope.{kind}", layer.rotary_emb, whole=True)
        for i, level in enumerate(vision.neck.fpn_layers[:-1]):
            self.hook(f"level.{i}", level)
        self.hook("text", model.text_projection)
        self.hook("geometry", model.geometry_encoder, whole=True)
        for i, layer in enumerate(model.detr_encoder.layers):
            self.hook(f"encoder.{i}", layer)
        self.hook("encoder_self", model.detr_encoder.layers[0].self_attn)
        self.hook("decoder", model.detr_decoder, whole=True)
        self.hook("pixels", model.mask_decoder.pixel_decoder)

    def hook(self, name, module, whole=False):
        def keep(_module, _args, output):
            if isinstance(output, tuple) and not whole:
                output = output[0]
            self.outputs[name] = output
        module.register_forward_hook(keep)


def rows(tensor):
    if tensor.dim() == 4 and tensor.shape[0] == 1:
        return tensor[0].flatten(1).T  # channels first
    return tensor.flatten(0, -2)


def run(model, side, prompts, dtype):
    """name -> [rows, columns] of all stages; pictures once, then every prompt."""
    recorder = Recorder(model)
    got = recorder.outputs
    strict = NoSingle if dtype == torch.float64 else contextlib.nullcontext
    stages = {}
    with torch.no_grad():
        pixels = pictures(side).to(dtype)
        with strict():
            vision = model.get_vision_features(pixels)
        stages["embed"] = got["embed"].flatten(0, 2)
        for name in [n for n in got if n.startswith("vit.")]:
            stages[name] = got[name].flatten(0, 2)
        for name in [n for n in got if n.startswith("level.")]:
            stages[name] = rows(got[name])
        for kind in ("window", "global"):
            if f"rope.{kind}" in got:
                cosine, sine = got[f"rope.{kind}"]
                stages[f"cosine.{kind}"] = cosine[0, :, ::2]
                stages[f"sine.{kind}"] = sine[0, :, ::2]
        stages["positions"] = rows(vision.fpn_position_encoding[len(vision.fpn_hidden_states) - 2])
        kept = vision.fpn_hidden_states[-2]
        positions = model.text_encoder.config.max_position_embeddings
        outputs = []
        for p, (ids, boxes, mask) in enumerate(prompts):
            valid = len(ids)
            padded = ids + [999] * (positions - valid)
            inputs = {"input_ids": torch.tensor([padded]), "vision_embeds": vision}
            if mask:
                inputs["attention_mask"] = torch.tensor([[int(i < valid)
                                                          for i in range(positions)]])
            if boxes:
                values = torch.tensor([[box for box, _ in boxes]], dtype=torch.float32)
                inputs["input_boxes"] = values.to(dtype)
                inputs["input_boxes_labels"] = torch.tensor([[label for _, label in boxes]])
            with strict():
                out = model(**inputs)
            outputs.append(out)
            at = f"p{p}."
            stages[at + "text"] = got["text"][0, :valid]
            if boxes:
                stages[at + "geometry"] = got["geometry"].last_hidden_state[0]
            if p == 0:
                stages["encoder_input"] = got["encoder_self"][0] + rows(kept)
            encoders = [n for n in got if n.startswith("encoder.")]
            for name in encoders:
                stages[at + name] = got[name][0]
            decoder = got["decoder"]
            for i, hidden in enumerate(decoder.intermediate_hidden_states):
                stages[f"{at}hidden.{i}"] = hidden[0]
            for i, boxes_in in enumerate(decoder.reference_boxes[1:]):
                stages[f"{at}references.{i}"] = boxes_in[0]
            stages[at + "presence"] = decoder.presence_logits.reshape(1, -1)
            stages[at + "logits"] = out.pred_logits
            stages[at + "boxes"] = out.pred_boxes[0]
            stages[at + "scores"] = out.pred_logits.sigmoid() * out.presence_logits.sigmoid()
            stages[at + "pixels"] = rows(got["pixels"])
            stages[at + "masks"] = out.pred_masks[0].flatten(1)
            stages[at + "semantic"] = out.semantic_seg.flatten()[None]
    return {name: value.contiguous() for name, value in stages.items()}, outputs


def loaded_model(config, bf16):
    """The model as transformers loads it from a file of the stored type, in float32."""
    names = {n: tuple(t.shape) for n, t in Sam3Model(Sam3Config(**config)).state_dict().items()}
    tensors = {n: torch.from_numpy(hash_values(n, s)) for n, s in names.items()}
    if bf16:
        tensors = {n: t.bfloat16() for n, t in tensors.items()}
    with tempfile.TemporaryDirectory() as folder:
        model = Sam3Model(Sam3Config(**config))
        if bf16:
            model = model.bfloat16()
        model.load_state_dict(tensors, strict=True)
        model.save_pretrained(folder)
        model = Sam3Model.from_pretrained(folder, dtype=torch.float32).eval()
    for name, value in model.state_dict().items():
        assert value.dtype == torch.float32 and torch.equal(value, tensors[name].float()), name
    return model


def in_double(config, single):
    model = Sam3Model(Sam3Config(**config)).eval().double()
    model.load_state_dict(single.state_dict())
    # Buffers went through float32 in double(); these hold what the patched functions gave.
    for layer in model.vision_encoder.backbone.layers:
        layer.position_ids = layer.precompute_positions(layer.config, layer.window_size)
        layer.rotary_emb.inv_freq = layer.rotary_emb.compute_axial_rope_parameters(layer.config)[0]
    return model


def pick_threshold(scores):
    """In the widest gap between the scores that leaves at least one on either side."""
    ordered = torch.sort(scores.flatten()).values
    middle = len(ordered) // 2
    low, high = max(1, middle - 2), min(len(ordered) - 1, middle + 2)
    best = max(range(low, high + 1), key=lambda i: float(ordered[i] - ordered[i - 1]))
    assert ordered[best] - ordered[best - 1] > 2e-5, "scores too close for a threshold"
    return float(np.float32((ordered[best] + ordered[best - 1]) / 2))


def post_process(out, threshold, target):
    processor = Sam3ImageProcessor()
    instances = processor.post_process_instance_segmentation(
        out, threshold=threshold, mask_threshold=0.5, target_sizes=[target])[0]
    semantic = processor.post_process_semantic_segmentation(
        out, target_sizes=[target], threshold=0.5)[0]
    scores = (out.pred_logits.sigmoid() * out.presence_logits.sigmoid())[0]
    kept = torch.nonzero(scores > threshold).flatten()
    maps = torch.cat([instances["masks"].bool(), semantic.bool().reshape(1, *target)])
    logits = torch.cat([out.pred_masks[0, kept], out.semantic_seg[0]])
    probability = F.interpolate(logits.sigmoid()[None], size=target, mode="bilinear")[0]
    assert torch.equal(maps, probability > 0.5)
    assert torch.equal(instances["scores"], scores[kept])
    return kept, maps, (probability - 0.5).abs() < SLACK


def sample(flat):
    if len(flat) <= SAMPLES:
        return flat
    return flat[(np.arange(SAMPLES, dtype=np.int64) * STEP) % len(flat)]


def compute(name):
    case = CASES[name]
    config, target = case["config"], case["target"]
    backbone = config["vision_config"]["backbone_config"]
    prompts = prompts_of(config["text_config"]["max_position_embeddings"])
    if case.get("prompts") == 3:
        prompts = [prompts[4], prompts[0], prompts[3]]
    single_model = loaded_model(config, case.get("bf16", False))
    single, _ = run(single_model, backbone["image_size"], prompts, torch.float32)
    with double_rotation():
        double_model = in_double(config, single_model)
        double, outputs = run(double_model, backbone["image_size"], prompts, torch.float64)

    template = json.loads(json.dumps(config))
    layers = [backbone["num_hidden_layers"], config["detr_encoder_config"]["num_layers"],
              config["detr_decoder_config"]["num_layers"]]
    template["vision_config"]["backbone_config"]["num_hidden_layers"] = "@VIT@"
    template["detr_encoder_config"]["num_layers"] = "@ENCODER@"
    template["detr_decoder_config"]["num_layers"] = "@DECODER@"
    text = json.dumps(template, separators=(",", ":")).encode()
    file = {"config": np.frombuffer(text, np.uint8).copy(), "layers": np.array(layers, np.int64),
            "target": np.array(target, np.int64)}
    about = {}
    for stage, value in double.items():
        assert value.dtype == torch.float64 and single[stage].dtype == torch.float32, stage
        assert value.shape == single[stage].shape, stage
        exact = value.numpy().ravel()
        error = np.abs(single[stage].numpy().ravel().astype(np.float64) - exact).max()
        file[stage] = sample(exact)
        about[stage] = np.array([exact.size, error, exact.min(), exact.max()])
    for few in FEW:
        same = [stage for stage in about if stage.endswith("." + few)]
        for stage in same:
            file[stage + "#"] = np.array([
                about[stage][0], max(about[s][1] for s in same),
                min(about[s][2] for s in same), max(about[s][3] for s in same)])
    for stage, value in about.items():
        file.setdefault(stage + "#", value)
    for p, (ids, boxes, _) in enumerate(prompts):
        at = f"p{p}."
        threshold = pick_threshold(double[at + "scores"])
        kept, maps, open_pixels = post_process(outputs[p], threshold, target)
        file[at + "ids"] = np.array(ids, np.int64)
        file[at + "boxes_in"] = np.array([b for b, _ in boxes], np.float32).reshape(-1).astype(
            np.float64)
        file[at + "labels"] = np.array([label for _, label in boxes], np.int64)
        file[at + "threshold"] = np.array([threshold])
        file[at + "kept"] = kept.numpy()
        file[at + "bits"] = np.packbits(maps.numpy().ravel())
        file[at + "open"] = np.packbits(open_pixels.numpy().ravel())
    return file


def compare(name, new, old):
    problems = []
    if set(new) != set(old):
        return [f"{name}: other tensors: {sorted(set(new) ^ set(old))}"]
    for key, value in new.items():
        was = old[key]
        if value.shape != was.shape or value.dtype != was.dtype:
            problems.append(f"{name}: {key}: {was.dtype} {was.shape} is now {value.dtype} "
                            f"{value.shape}")
        elif key.endswith("#"):
            span = max(value[3] - value[2], abs(value[3]), 1e-30)
            errors = sorted([value[1] + 1e-7 * span, was[1] + 1e-7 * span])
            if value[0] != was[0] or np.abs(value[2:] - was[2:]).max() > 1e-10 * span:
                problems.append(f"{name}: {key}: {was} is now {value}")
            elif errors[1] > 4 * errors[0]:
                problems.append(f"{name}: {key}: float32 error {was[1]} is now {value[1]}")
        elif key + "#" in new:
            span = max(new[key + "#"][3] - new[key + "#"][2], abs(new[key + "#"][3]), 1e-30)
            if np.abs(value - was).max() > 1e-10 * span:
                problems.append(f"{name}: {key}: off by {np.abs(value - was).max()}")
        elif key.endswith("threshold"):
            if not np.allclose(value, was, rtol=1e-6, atol=0):
                problems.append(f"{name}: {key}: {was} is now {value}")
        elif not np.array_equal(value, was):
            problems.append(f"{name}: {key} differs")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    problems = []
    for name in args.cases or CASES:
        file = compute(name)
        path = OUT / f"stages_{name}.safetensors"
        if args.check:
            problems += compare(name, file, load_file(path))
        else:
            OUT.mkdir(parents=True, exist_ok=True)
            save_file(file, path)
        print(f"{name}: {path.stat().st_size} bytes", flush=True)
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
