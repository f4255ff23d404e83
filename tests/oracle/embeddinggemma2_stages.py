#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/embeddinggemma2/golden/stages_*.safetensors: what every stage of transformers'
EmbeddingGemma2Model gives in float64 on small random models, and how far its own float32 run is
from that.

usage: embeddinggemma2_stages.py [--check] [CASE ...]

Weights follow the hash of tests/support/gemma_weights.cc, so the files hold no weights. Tensors of
a file (all values little-endian):
  config               U8   text of config.json
  bf16                 I64  1 when the weights are stored in bfloat16
  pictures             I64  [n, 2] grid width and height in patches; pixels follow pixel_values()
  sS.parts             I64  input S: token ids, and -1 - p where the soft tokens of picture p stand
  STAGE                F64  values, or SAMPLES of them (see sample()) when there are more
  STAGE#               F64  number of values, largest |float32 - float64|, least and largest value;
                            the three are taken over all values of the stage
Stages: pP.patches, pP.layer.I, pP.pooled, pP.soft of pictures; sS.embedded, sS.ple.I, sS.layer.I,
sS.mean (of the rows behind the final norm), sS.embedding (unit length) of inputs.

--check computes everything again and compares: float64 values to 1e-10 of the stage's range, the
float32 errors (they depend on the processor) within a factor of 4.
"""

import argparse
import contextlib
import json
import math
import pathlib
import sys
import warnings
from unittest import mock

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import EmbeddingGemma2Config, EmbeddingGemma2Model
from transformers.models.embedding_gemma2 import modeling_embedding_gemma2 as text_reference
from transformers.models.gemma4 import modeling_gemma4 as vision_reference
from transformers.utils import logging

logging.set_verbosity_error()
warnings.simplefilter("ignore")
torch.set_num_threads(1)

OUT = pathlib.Path(__file__).resolve().parent.parent / "unit" / "embeddinggemma2" / "golden"
SAMPLES = 96
STEP = 15485863  # a prime: every sample is another value
IMAGE, BOI, EOI = 90, 91, 92


def hash_values(name, shape):
    h = 14695981039346656037
    for byte in name.encode():
        h = ((h ^ byte) * 1099511628211) % 2**64
    count = math.prod(shape)
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        centre = 1.5 / math.sqrt(math.sqrt(shape[0]))  # scores of moderate size
        width = 0.2 * centre
    elif len(shape) == 1:
        centre, width = 1.0, 0.2
    elif name.endswith("position_embedding_table"):
        centre, width = 0.0, 0.5
    else:
        centre, width = 0.0, math.sqrt(3.0 / shape[-1])
    z = np.arange(count, dtype=np.uint64) + np.uint64((h + 0x9E3779B97F4A7C15) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    r = 2.0 * ((z >> np.uint64(40)).astype(np.float64) * 2.0**-24) - 1.0
    return (centre + width * r).astype(np.float32).reshape(shape)


def text_of(hidden, inner, ple, dim, kinds, heads, sliding, full, window, theta=(1e4, 1e6)):
    """kinds: a letter a layer, s or f; sliding, full: head size and key heads."""
    names = {"s": "sliding_attention", "f": "full_attention"}
    digits = len(str(len(kinds) - 1))
    return {
        "model_type": "embedding_gemma2_text", "vocab_size": 97, "hidden_size": hidden,
        "intermediate_size": inner, "hidden_size_per_layer_input": ple, "embedding_dim": dim,
        "num_hidden_layers": len(kinds), "num_attention_heads": heads, "head_dim": sliding[0],
        "num_key_value_heads": sliding[1], "rms_norm_eps": 1e-6, "sliding_window": window,
        "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False,
        "max_position_embeddings": 4096, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 1,
        "layer_types": [names[k] for k in kinds],
        "per_layer_config": {f"{i:0{digits}}": {"head_dim": full[0], "num_key_value_heads": full[1]}
                             for i, k in enumerate(kinds) if k == "f"},
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": theta[0]},
            "full_attention": {"rope_type": "default", "rope_theta": theta[1]}},
    }


def vision_of(hidden, inner, layers, heads, kv_heads, head_dim, patch, pool, rows):
    return {
        "model_type": "gemma4_vision", "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "patch_size": patch,
        "pooling_kernel_size": pool, "position_embedding_size": rows, "rms_norm_eps": 1e-6,
        "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False,
        "use_clipped_linears": False, "standardize": False,
        "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0},
    }


def config_of(text, vision=None):
    return {
        "model_type": "embedding_gemma2", "architectures": ["EmbeddingGemma2Model"],
        "dtype": "float32", "text_config": text, "vision_config": vision, "audio_config": None,
        "image_token_id": IMAGE, "boi_token_id": BOI, "eoi_token_id": EOI, "audio_token_id": 93,
        "boa_token_id": 94, "eoa_token_index": 95, "video_token_id": 96,
    }


def words(count, seed):
    return [(37 * i * i + 101 * i + seed) % 87 + 3 for i in range(count)]


def text_input(count, seed):
    return [2] + words(count - 2, seed) + [1]


def picture(p):
    return [BOI, -1 - p, EOI]


CASES = {
    # Texts alone: two head sizes, a window shorter than the text, one kind of layer twice in a row.
    "text": dict(
        config=config_of(text_of(48, 96, 24, 40, "ssfsf", 4, (16, 2), (32, 1), 5)),
        inputs=[text_input(2, 1), text_input(9, 2), text_input(3, 3), text_input(61, 4)]),
    # Pictures alone, with text on both sides, and two in one input; grids of one and many cells.
    "pictures": dict(
        config=config_of(text_of(40, 72, 56, 24, "sfsf", 2, (20, 1), (24, 2), 7),
                         vision_of(48, 88, 3, 3, 3, 20, 4, 2, 40)),
        pictures=[(8, 4), (2, 2), (6, 14)],
        inputs=[[2] + picture(0) + [1], [2] + words(4, 5) + picture(1) + words(7, 6) + [1],
                [2] + picture(2) + picture(0) + words(3, 7) + [1], text_input(12, 8)]),
    # Weights in bfloat16; pooling 3, grouped heads in the tower, heads wider than the hidden size.
    "bf16": dict(
        config=config_of(text_of(64, 160, 32, 48, "ssf", 4, (24, 2), (48, 1), 9),
                         vision_of(64, 128, 2, 4, 2, 24, 6, 3, 32)),
        pictures=[(9, 6), (3, 12)],
        inputs=[[2] + picture(0) + [1], [2] + words(5, 9) + picture(1) + words(2, 10) + [1],
                text_input(30, 11)], bf16=True),
    # The released model's heads.
    "heads": dict(
        config=config_of(text_of(64, 128, 64, 96, "sf", 4, (256, 2), (512, 1), 12),
                         vision_of(96, 160, 2, 3, 3, 64, 4, 3, 64)),
        pictures=[(18, 15)],
        inputs=[[2] + picture(0) + words(6, 12) + [1], text_input(40, 13)]),
    # The released model's window, just not and well passed.
    "window": dict(
        config=config_of(text_of(32, 48, 16, 32, "sf", 2, (16, 1), (16, 1), 512)),
        inputs=[text_input(514, 14), text_input(1300, 15)]),
}


def pixel_values(p, width, height, side):
    """[patches, side * side * 3]: levels from a formula, times float32(1/255)."""
    shape = (height, width, side, side, 3)
    gy, gx, py, px, c = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    y, x = gy * side + py, gx * side + px
    level = (x * (3 + 2 * c) + y * (5 - c) + 11 * c * c + x * y // 7 + 29 * p) % 256
    values = level.astype(np.float32) * np.float32(0.00392156862745098)
    return values.reshape(width * height, -1)


def positions_of(width, height):
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    return torch.from_numpy(np.stack([x.ravel(), y.ravel()], axis=-1))


class NoSingle(TorchDispatchMode):
    """Fails when any operation gives a float of less than 64 bits."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                assert value.dtype == torch.float64, f"{func} gives {value.dtype}"
        return result


@contextlib.contextmanager
def double_everywhere(model):
    """Takes the reference's detours through float32 (norms, pooler, rotary angles, the scale of the
    embeddings) in float64. Attention is torch's own kernel, which follows its operands."""
    def frequencies(theta, channels):
        return theta ** -(torch.arange(0, channels, 2, dtype=torch.float64) / channels)

    def text_rope(self, x, position_ids, layer_type):
        config = self.config
        channels = config.per_layer_config[layer_type].head_dim
        f = frequencies(config.rope_parameters[layer_type]["rope_theta"], channels)
        angles = position_ids[..., None].double() * f
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    def vision_rope(self, x, position_ids):
        f = frequencies(self.config.rope_parameters["rope_theta"], self.config.head_dim // 2)
        angles = position_ids[..., None].double() * f
        return tuple(self.recomposition_frequencies(t) for t in (angles.cos(), angles.sin()))

    text = model.language_model
    text.embed_tokens.embed_scale = torch.tensor(math.sqrt(text.config.hidden_size),
                                                 dtype=torch.float64)
    with mock.patch.object(text_reference.EmbeddingGemma2RotaryEmbedding, "forward", text_rope), \
            mock.patch.object(vision_reference.Gemma4VisionRotaryEmbedding, "forward",
                              vision_rope), \
            mock.patch.object(torch.Tensor, "float", lambda self: self.double()), NoSingle():
        yield


class Recorder:
    """Outputs of named modules of the first batch element."""

    def __init__(self, model):
        self.outputs = {}
        text = model.language_model
        self.hook("ple", text.ple)
        for i, layer in enumerate(text.layers):
            self.hook(f"text.{i}", layer)
        self.hook("norm", text.norm)
        if model.vision_tower is not None:
            self.hook("patches", model.vision_tower.patch_embedder)
            for i, layer in enumerate(model.vision_tower.encoder.layers):
                self.hook(f"vision.{i}", layer)
            self.hook("pooled", model.vision_tower)
            self.hook("soft", model.embed_vision)

    def hook(self, name, module):
        def keep(_module, _args, output):
            if hasattr(output, "last_hidden_state"):
                output = output.last_hidden_state
            self.outputs[name] = output
        module.register_forward_hook(keep)


def vision_inputs(chosen, sizes, side, dtype):
    """Pictures padded to one number of patches, as the processor gives them."""
    most = max(w * h for w, h in (sizes[p] for p in chosen))
    pixels = torch.zeros((len(chosen), most, side * side * 3), dtype=dtype)
    positions = torch.full((len(chosen), most, 2), -1)
    for row, p in enumerate(chosen):
        width, height = sizes[p]
        values = pixel_values(p, width, height, side).astype(np.float64)
        pixels[row, :width * height] = torch.from_numpy(values)
        positions[row, :width * height] = positions_of(width, height)
    return {"pixel_values": pixels, "image_position_ids": positions}


def run(model, case, dtype):
    """name -> [rows, columns] of all stages: every picture alone, then every input."""
    recorder = Recorder(model)
    got = recorder.outputs
    sizes = case.get("pictures", [])
    vision = model.config.vision_config
    stages, cells = {}, []
    strict = double_everywhere(model) if dtype == torch.float64 else contextlib.nullcontext()
    with torch.no_grad(), strict:
        for p, (width, height) in enumerate(sizes):
            soft = model.get_image_features(**vision_inputs([p], sizes, vision.patch_size, dtype))
            stages[f"p{p}.patches"] = got["patches"][0]
            for i in range(vision.num_hidden_layers):
                stages[f"p{p}.layer.{i}"] = got[f"vision.{i}"][0]
            stages[f"p{p}.pooled"] = got["pooled"]
            stages[f"p{p}.soft"] = soft.pooler_output[0]
            cells.append(len(soft.pooler_output[0]))
        for s, parts in enumerate(case["inputs"]):
            ids = [i for part in parts
                   for i in ([part] if part >= 0 else [IMAGE] * cells[-1 - part])]
            chosen = [-1 - part for part in parts if part < 0]
            more = vision_inputs(chosen, sizes, vision.patch_size, dtype) if chosen else {}
            embedded = {}
            handle = model.language_model.register_forward_pre_hook(
                lambda _m, _a, kwargs: embedded.update(x=kwargs["inputs_embeds"]),
                with_kwargs=True)
            out = model(input_ids=torch.tensor([ids]), **more)
            handle.remove()
            stages[f"s{s}.embedded"] = embedded["x"][0]
            for i in range(model.config.text_config.num_hidden_layers):
                stages[f"s{s}.ple.{i}"] = got["ple"][0, :, i]
                # The layer's output is scaled in place behind its last sum.
                stages[f"s{s}.layer.{i}"] = got[f"text.{i}"][0]
            stages[f"s{s}.mean"] = got["norm"][0].mean(0, keepdim=True)
            mean = out.last_hidden_state[0].mean(0)
            stages[f"s{s}.embedding"] = (mean / mean.norm().clamp(min=1e-12))[None]
    return {name: value.clone().contiguous() for name, value in stages.items()}


def loaded_model(case):
    config = EmbeddingGemma2Config(**json.loads(json.dumps(case["config"])))
    model = EmbeddingGemma2Model(config).eval()
    tensors = {}
    for name, value in model.state_dict().items():
        tensor = torch.from_numpy(hash_values(name, tuple(value.shape)))
        tensors[name] = tensor.bfloat16().float() if case.get("bf16") else tensor
    model.load_state_dict(tensors, strict=True)
    assert model.config._attn_implementation == "sdpa"
    return model


def sample(values):
    flat = values.reshape(-1)
    if flat.numel() <= SAMPLES:
        return flat
    return flat[(torch.arange(SAMPLES) * STEP) % flat.numel()]


def compute(name):
    case = CASES[name]
    model = loaded_model(case)
    single = run(model, case, torch.float32)
    double = run(model.double(), case, torch.float64)
    tensors = {
        "config": np.frombuffer(json.dumps(case["config"]).encode(), dtype=np.uint8),
        "bf16": np.array([int(case.get("bf16", False))]),
        "pictures": np.array(case.get("pictures", []), dtype=np.int64).reshape(-1, 2),
    }
    for s, parts in enumerate(case["inputs"]):
        tensors[f"s{s}.parts"] = np.array(parts, dtype=np.int64)
    for stage, exact in double.items():
        assert exact.dtype == torch.float64 and exact.dim() == 2, stage
        error = (single[stage].double() - exact).abs().max().item()
        tensors[stage] = sample(exact).numpy()
        tensors[stage + "#"] = np.array([exact.numel(), error, exact.min(), exact.max()])
    return tensors


def compare(name, new):
    old = load_file(OUT / f"stages_{name}.safetensors")
    faults = [] if old.keys() == new.keys() else ["names of tensors"]
    for key in old.keys() & new.keys():
        a, b = old[key], new[key]
        if a.shape != b.shape:
            faults.append(key)
        elif key.endswith("#"):
            span = a[3] - a[2]
            close = abs(a[2:] - b[2:]).max() <= 1e-10 * span
            if a[0] != b[0] or not close or b[1] > 4 * a[1] + 1e-9 * span:
                faults.append(key)
        elif a.dtype == np.float64:
            span = old[key + "#"][3] - old[key + "#"][2]
            if abs(a - b).max() > 1e-10 * span:
                faults.append(key)
        elif not np.array_equal(a, b):
            faults.append(key)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    options = parser.parse_args()
    bad = False
    for name in options.cases or CASES:
        tensors = compute(name)
        worst = max(float(v[1]) for k, v in tensors.items() if k.endswith("embedding#"))
        if options.check:
            faults = compare(name, tensors)
            bad = bad or bool(faults)
            print(f"{name}: {'differs: ' + ', '.join(sorted(faults)[:8]) if faults else 'same'}")
        else:
            OUT.mkdir(parents=True, exist_ok=True)
            save_file(tensors, OUT / f"stages_{name}.safetensors")
            print(f"{name}: {len(tensors)} tensors, embedding float32 against float64 {worst:.2g}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
