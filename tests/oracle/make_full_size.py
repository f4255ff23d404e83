#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a full-size SAM 3 checkpoint with random weights (3.4 GB), laid out as the released one.

usage: make_full_size.py OUTPUT_DIR TOKENIZER_DIR

config.json in form A (video config with detector_config), tensors prefixed detector_model., the
tokenizer files copied from TOKENIZER_DIR. Needs torch and transformers (requirements.txt).
"""
import json
import pathlib
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import Sam3Config, Sam3Model


def main():
    out, tokenizer = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    config = Sam3Config()
    with torch.no_grad():
        model = Sam3Model(config).eval()
        tensors = {}
        for name, value in model.state_dict().items():
            if value.dim() > 1 and "embed" not in name and "position" not in name:
                # Unit gain through a matrix keeps activations of every stage alive.
                value.normal_(0.0, value[0].numel() ** -0.5)
            tensors["detector_model." + name] = value.contiguous()
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    detector = config.to_dict()
    (out / "config.json").write_text(json.dumps(
        {"architectures": ["Sam3VideoModel"], "model_type": "sam3_video",
         "detector_config": detector, "tracker_config": {"model_type": "sam3_tracker_video"}},
        indent=1))
    processor = {"image_processor": {
        "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
        "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2,
        "image_processor_type": "Sam3ImageProcessor", "rescale_factor": 1 / 255,
        "mask_size": {"height": 288, "width": 288}, "size": {"height": 1008, "width": 1008}},
        "processor_class": "Sam3Processor", "target_size": 1008}
    (out / "processor_config.json").write_text(json.dumps(processor, indent=1))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, out / name)
        (out / name).chmod(0o644)


main()
