#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bundles on the software NPU beside the float graph of checkpoints of the same sizes.

    bundles.py BENCH_FOLDER [--sam3 CHECKPOINT BUNDLE] [--gemma CHECKPOINT BUNDLE] [--reps N]

BENCH_FOLDER holds the built sam3_bench and embed_bench. The two programs of a pair take turns, so
that what else the machine does meets both; figures are medians with the least and the largest.
Prints a table a model, with the resident memory beside the bundle's size."""
import argparse
import json
import os
import statistics
import subprocess
import sys


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bundles.py: {' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def folder_mib(path):
    sizes = (os.path.getsize(os.path.join(at, name)) for at, _, files in os.walk(path)
             for name in files)
    return sum(sizes) / 2**20


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def compare(title, command, pair, figures, reps):
    runs = {path: [] for path in pair}
    for _ in range(reps):
        for path in pair:
            runs[path].append(run(*command(path)))
    print(f"## {title}, {reps} turns each\n")
    print("| | checkpoint | bundle | bundle / checkpoint, by turns |\n|---|---|---|---|")
    for name, read in figures.items():
        float_graph, bundle = ([read(one) for one in runs[path]] for path in pair)
        ratios = [b / a for a, b in zip(float_graph, bundle)]
        print(f"| {name} | {spread(float_graph)} | {spread(bundle)} |"
              f" {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")
    print(f"\nThe bundle has {folder_mib(pair[1]):.0f} MiB.\n", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--sam3", nargs=2, metavar=("CHECKPOINT", "BUNDLE"))
    parser.add_argument("--gemma", nargs=2, metavar=("CHECKPOINT", "BUNDLE"))
    parser.add_argument("--reps", type=int, default=3)
    args = parser.parse_args()
    if args.sam3:
        tool = os.path.join(args.folder, "sam3_bench")
        compare("SAM 3", lambda path: [tool, path, "--json"], args.sam3, {
            "picture, ms": lambda one: one["image_ms"],
            "prompt, ms": lambda one: one["prompt_ms"],
            "load, ms": lambda one: one["load_ms"],
            "peak RSS, MiB": lambda one: one["peak_rss_mib"],
        }, args.reps)
    if args.gemma:
        tool = os.path.join(args.folder, "embed_bench")
        compare("EmbeddingGemma 2", lambda path: [tool, path, "--texts", "20", "--reps", "1"],
                args.gemma, {
                    "picture, ms": lambda one: one["picture"]["median_ms"],
                    "text of 18 tokens, ms": lambda one: one["text18"]["median_ms"],
                    "20 texts as a batch, ms": lambda one: one["texts_as_one_batch"]["median_ms"],
                    "load, ms": lambda one: one["load_ms"],
                    "peak RSS, MiB": lambda one: one["peak_rss_mib"],
                }, args.reps)


if __name__ == "__main__":
    main()
