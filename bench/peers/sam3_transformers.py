#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times transformers' Sam3Model in float32 on a checkpoint directory.

usage: sam3_transformers.py MODEL IMAGE PROMPT... [--threads N] [--raw DIR]

Prints one JSON line: load, image and prompt times in ms, peak resident memory in MiB. --raw writes
the outputs of every prompt as npuseg-cli segment --raw does, for comparison.
"""

import argparse
import json
import pathlib
import resource
import time

import numpy as np
import torch
from transformers import Sam3Model, Sam3Processor
from transformers.image_utils import load_image


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("image")
    parser.add_argument("prompts", nargs="+")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--raw")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    clock = time.perf_counter
    begin = clock()
    model = Sam3Model.from_pretrained(args.model, dtype=torch.float32).eval()
    processor = Sam3Processor.from_pretrained(args.model)
    load = clock() - begin
    picture = load_image(args.image)
    with torch.no_grad():
        begin = clock()
        pixels = processor(images=picture, return_tensors="pt")["pixel_values"]
        vision = model.get_vision_features(pixels)
        image = clock() - begin
        prompts = []
        for number, text in enumerate(args.prompts):
            begin = clock()
            ids = processor(text=text, return_tensors="pt")
            out = model(
                vision_embeds=vision,
                input_ids=ids["input_ids"],
                attention_mask=ids["attention_mask"],
            )
            prompts.append((clock() - begin) * 1e3)
            if args.raw:
                folder = pathlib.Path(args.raw)
                folder.mkdir(parents=True, exist_ok=True)
                np.save(folder / "0_pixel_values.npy", pixels[0].numpy())
                for name in (
                    "pred_logits",
                    "presence_logits",
                    "pred_boxes",
                    "pred_masks",
                    "semantic_seg",
                ):
                    value = getattr(out, name)[0].numpy()
                    np.save(folder / f"0_{number}_{name}.npy", value)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "threads": torch.get_num_threads(),
                "load_ms": load * 1e3,
                "image_ms": image * 1e3,
                "prompt_ms": prompts,
                "peak_rss_mib": peak,
            }
        )
    )


main()
