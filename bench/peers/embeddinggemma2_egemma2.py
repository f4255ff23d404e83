#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the PyPI package egemma2 (CPU, float32) on an EmbeddingGemma 2 directory.

usage: embeddinggemma2_egemma2.py MODEL TEXTS [--picture FILE] [--npy FILE]

Same output as embeddinggemma2_transformers.py; the memory is that of its server process.
"""

import argparse
import json
import pathlib
import time

import numpy as np
from egemma2 import Egemma2


def times(run, count):
    values = []
    for _ in range(count):
        begin = time.perf_counter()
        result = run()
        values.append((time.perf_counter() - begin) * 1e3)
    values.sort()
    return {"min_ms": values[0], "median_ms": values[len(values) // 2]}, result


def server_peak():
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if text.startswith("Name:\tegemma2"):
            return int(text.split("VmHWM:")[1].split()[0]) / 1024
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--picture")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--npy")
    args = parser.parse_args()
    texts = open(args.texts, encoding="utf-8").read().splitlines()
    begin = time.perf_counter()
    with Egemma2(model_dir=args.model, device="cpu", precision="f32") as model:
        out = {"load_ms": (time.perf_counter() - begin) * 1e3}
        vectors = []
        if args.picture:
            out["picture"], vector = times(
                lambda: model.embed([{"image": args.picture}]), args.reps
            )
            vectors.append(np.asarray(vector, dtype=np.float32))
        out["text18"], _ = times(lambda: model.embed([texts[0]]), 20)
        out["texts_as_one_batch"], vector = times(lambda: model.embed(texts), 1)
        vectors.append(np.asarray(vector, dtype=np.float32))
        out["texts"] = len(texts)
        out["peak_rss_mib"] = server_peak()
    if args.npy:
        np.save(args.npy, np.concatenate(vectors))
    print(json.dumps(out))


main()
