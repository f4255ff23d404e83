#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times sentence-transformers in float32 on an EmbeddingGemma 2 directory.

usage: embeddinggemma2_transformers.py MODEL TEXTS [--picture FILE] [--threads N] [--npy FILE]

TEXTS: a file with one text a line, of which the first also is timed alone. Prints one JSON line:
load, picture, text and batch times in ms, peak resident memory in MiB. --npy writes the vectors of
the picture, if any, and of all texts.
"""

import argparse
import json
import resource
import time

import numpy as np
import torch
from sentence_transformers import SentenceTransformer


def times(run, count):
    values = []
    for _ in range(count):
        begin = time.perf_counter()
        result = run()
        values.append((time.perf_counter() - begin) * 1e3)
    values.sort()
    return {"min_ms": values[0], "median_ms": values[len(values) // 2]}, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("texts")
    parser.add_argument("--picture")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--npy")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    texts = open(args.texts, encoding="utf-8").read().splitlines()
    begin = time.perf_counter()
    model = SentenceTransformer(args.model, device="cpu", model_kwargs={"dtype": torch.float32})
    out = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load_ms": (time.perf_counter() - begin) * 1e3,
    }
    vectors = []
    if args.picture:
        out["picture"], vector = times(lambda: model.encode([{"image": args.picture}]), args.reps)
        vectors.append(vector)
    out["text18"], _ = times(lambda: model.encode([texts[0]]), 20)
    out["texts_as_one_batch"], vector = times(lambda: model.encode(texts, batch_size=32), 1)
    vectors.append(vector)
    out["texts"] = len(texts)
    out["peak_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if args.npy:
        np.save(args.npy, np.concatenate(vectors))
    print(json.dumps(out))


main()
