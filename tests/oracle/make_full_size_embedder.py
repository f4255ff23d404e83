#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a full-size EmbeddingGemma 2 checkpoint with random weights, without the audio tower.

usage: make_full_size_embedder.py OUTPUT_DIR DEMO_DIR [float32|bfloat16]

The released model's sizes (class defaults), 1.7 GB in float32 and 0.9 GB in bfloat16 (default).
processor_config.json and the sentence-transformers files are DEMO_DIR's (demo/embeddinggemma2)
with the released sizes; tokenizer.json comes from make_full_size_tokenizer.py, run before on
the same folder. Needs torch and transformers (requirements.txt).
"""

import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import EmbeddingGemma2Config, EmbeddingGemma2Model

VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 16,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "head_dim": 64,
    "patch_size": 16,
    "pooling_kernel_size": 3,
    "position_embedding_size": 10240,
    "rms_norm_eps": 1e-6,
    "standardize": False,
    "use_clipped_linears": False,
}


def copy_files(out, demo):
    for name in (
        "modules.json",
        "sentence_bert_config.json",
        "chat_template.jinja",
        "1_Pooling/config.json",
        "config_sentence_transformers.json",
        "processor_config.json",
        "tokenizer_config.json",
    ):
        if not (demo / name).exists():
            continue
        (out / name).parent.mkdir(exist_ok=True)
        shutil.copy(demo / name, out / name)
        (out / name).chmod(0o644)
    (out / "2_Normalize").mkdir(exist_ok=True)
    for name, change in (
        ("1_Pooling/config.json", {"word_embedding_dimension": 768, "embedding_dimension": 768}),
    ):
        values = json.loads((out / name).read_text())
        values.update({k: v for k, v in change.items() if k in values})
        (out / name).write_text(json.dumps(values, indent=1))
    processor = json.loads((out / "processor_config.json").read_text())
    for part in processor.values():
        if isinstance(part, dict) and "max_soft_tokens" in part:
            part.update(max_soft_tokens=280, patch_size=16, pooling_kernel_size=3)
    (out / "processor_config.json").write_text(json.dumps(processor, indent=1))


def main():
    out, demo = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    dtype = getattr(torch, sys.argv[3] if len(sys.argv) > 3 else "bfloat16")
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    config = EmbeddingGemma2Config(audio_config=None, vision_config=VISION)
    config.audio_config = None
    with torch.no_grad():
        model = EmbeddingGemma2Model(config).eval()
        tensors = {}
        for name, value in model.state_dict().items():
            if value.dim() > 1 and "embed_tokens" not in name and "position" not in name:
                # Unit gain through a matrix keeps activations of every stage alive.
                value.normal_(0.0, value[0].numel() ** -0.5)
            tensors[name] = value.to(dtype).contiguous()
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    values = config.to_dict()
    values["architectures"] = ["EmbeddingGemma2Model"]
    values["dtype"] = str(dtype).split(".")[1]
    (out / "config.json").write_text(json.dumps(values, indent=1))
    copy_files(out, demo)
    print(sum(t.numel() for t in tensors.values()), "parameters")


main()
