#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/image/golden/patches.txt: what transformers' Gemma4ImageProcessor (torchvision
backend, CPU) makes of generated pictures and of small files.

Lines: size BUDGET PATCH POOL w h W H            target size
       rgb BUDGET PATCH POOL w h W H crc crc     pixels of the generator of image_cases.py
       file BUDGET PATCH POOL w h W H crc crc HEX  a file, given to the processor by path
The first CRC-32 is of pixel_values (float32, real patches), the second of the positions (int64).
"""

import io
import pathlib
import random
import tempfile
import zlib

import numpy as np
import torch
from PIL import Image
from transformers.models.gemma4.image_processing_gemma4 import (
    Gemma4ImageProcessor,
    get_aspect_ratio_preserving_size,
)

from image_cases import lcg_bytes

RNG = random.Random(20261201)
OUT = pathlib.Path(__file__).resolve().parent.parent / "unit/image/golden/patches.txt"
BUDGETS = (70, 140, 280, 560, 1120)


def processed(image, budget, patch, pool):
    processor = Gemma4ImageProcessor(
        max_soft_tokens=budget, patch_size=patch, pooling_kernel_size=pool
    )
    out = processor(images=image, return_tensors="pt")
    positions = out["image_position_ids"][0]
    real = positions[:, 0] >= 0
    pixels = out["pixel_values"][0][real].to(torch.float32).numpy()
    positions = positions[real].to(torch.int64).numpy()
    size = (int(positions[:, 0].max()) + 1) * patch, (int(positions[:, 1].max()) + 1) * patch
    return (*size, zlib.crc32(pixels.tobytes()), zlib.crc32(positions.tobytes()))


def files():
    noise = np.frombuffer(lcg_bytes(24 * 20 * 4), np.uint8)
    rgba = noise.reshape(20, 24, 4)
    yield Image.fromarray(rgba[..., 0].copy()), "PNG"
    yield Image.fromarray(rgba[..., :2].copy(), "LA"), "PNG"
    yield Image.fromarray(rgba.copy(), "RGBA"), "PNG"
    yield Image.fromarray(rgba[..., :3].copy()).quantize(16), "PNG"
    yield Image.fromarray(rgba[..., :3].copy()), "JPEG"
    yield Image.fromarray(rgba[..., 0].copy()), "JPEG"
    yield Image.new("RGB", (1, 1), (200, 30, 255)), "PNG"
    yield Image.new("L", (300, 1), 77), "PNG"


def main():
    lines = []
    for _ in range(700):
        w = RNG.choice([RNG.randint(1, 60), RNG.randint(1, 3000), RNG.randint(1, 60000)])
        h = RNG.choice([RNG.randint(1, 60), RNG.randint(1, 3000), RNG.randint(1, 60000)])
        budget, (patch, pool) = RNG.choice(BUDGETS), RNG.choice([(16, 3), (16, 3), (8, 2), (4, 2)])
        high, wide = get_aspect_ratio_preserving_size(h, w, patch, budget * pool * pool, pool)
        lines.append(f"size {budget} {patch} {pool} {w} {h} {wide} {high}")
    cases = [(280, 16, 3, *s) for s in [(640, 480), (1, 1), (768, 768), (30, 500), (1000, 1)]]
    cases += [(280, 16, 3, 1, 1000), (280, 16, 3, 7, 5), (280, 16, 3, 1500, 1100)]
    cases += [(280, 16, 3, 768, 300), (280, 16, 3, 300, 768), (280, 16, 3, 10, 3000)]
    cases += [(b, 16, 3, 213, 150) for b in BUDGETS] + [(70, 8, 2, w, 90) for w in (90, 128, 400)]
    cases += [(70, 4, 2, 33, 21), (1120, 4, 2, 50, 60), (560, 16, 3, 2000, 3)]
    for budget, patch, pool, w, h in cases:
        pixels = np.frombuffer(lcg_bytes(w * h * 3), np.uint8).reshape(h, w, 3)
        image = torch.from_numpy(pixels.copy()).permute(2, 0, 1)
        result = processed(image, budget, patch, pool)
        lines.append(" ".join(map(str, ["rgb", budget, patch, pool, w, h, *result])))
    with tempfile.TemporaryDirectory() as folder:
        for image, kind in files():
            data = io.BytesIO()
            image.save(data, kind)
            path = pathlib.Path(folder, f"picture.{kind.lower()}")
            path.write_bytes(data.getvalue())
            result = processed(str(path), 70, 16, 3)
            size = image.size
            lines.append(
                " ".join(map(str, ["file", 70, 16, 3, *size, *result, data.getvalue().hex()]))
            )
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
