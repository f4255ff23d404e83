#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a tokenizer.json of the released model's size, to measure loading and encoding.

usage: make_full_size_tokenizer.py OUTPUT_DIR [--strings] [--compact] [--ascii]

262,144 tokens and about 515,000 merges: as in the released file, the merges are all splits of all
tokens into two tokens, those of newline and space runs first, then by id. Merges are lists of two
strings, or with --strings one string each; indented as released, or with --compact on one line.
Standard library only.
"""

import json
import pathlib
import random
import sys

COUNT = 262144
MERGES = 515000
RUN = 31
RNG = random.Random(20261201)
SPACE = "\u2581"
SPECIALS = {0: "<pad>", 1: "<eos>", 2: "<bos>", 3: "<unk>", 4: "<mask>"}
SPECIALS |= dict(
    zip(
        [46, 47, 48, 49, 50, 51, 52, 98, 100, 101, 105, 106],
        "<|tool> <tool|> <|tool_call> <tool_call|> <|tool_response> <tool_response|> "
        '<|"|> <|think|> <|channel> <channel|> <|turn> <turn|>'.split(),
    )
)
SPECIALS |= {255999: "<|image>", 256000: "<|audio>", 258880: "<|image|>", 258881: "<|audio|>"}
SPECIALS |= {258882: "<image|>", 258883: "<audio|>", 258884: "<|video|>"}


def characters():
    blocks = [(0x21, 0x7F), (0xA1, 0x250), (0x370, 0x530), (0x5D0, 0x5EB), (0x620, 0x64B)]
    blocks += [(0x905, 0x93A), (0xE01, 0xE3B), (0x3041, 0x30FF), (0x4E00, 0x7D00), (0xAC00, 0xBB00)]
    blocks += [(0x1F300, 0x1F650), (0x7D00, 0x9FA0)]
    found = [SPACE, "\n", "\t"] + [chr(c) for low, high in blocks for c in range(low, high)]
    return found[:19227]


def vocabulary():
    """Strings by id. All parts of a word are tokens too, so that they have two splits or more."""
    fixed = dict(SPECIALS)
    fixed |= {238 + b: f"<0x{b:02X}>" for b in range(256)}
    fixed |= {107 + i: "\n" * (i + 1) for i in range(RUN)}
    fixed |= {138 + i: SPACE * (i + 2) for i in range(RUN - 1)}
    singles = [c for c in characters() if c != "\n"]
    first_single = COUNT - len(singles) - 16
    known = set(fixed.values()) | set(singles)
    latin = "eeeetttaaaooiinnsshhrrddllccuummffppggwwyybbvvkkjxqz"
    tokens = []
    free = [i for i in range(494, first_single) if i not in fixed]
    unused = [i for i in range(COUNT) if i not in fixed and (i < 494 or i >= first_single)]
    while len(tokens) < len(free):
        letters = latin if RNG.random() < 0.93 else singles[100:9000]
        word = "".join(RNG.choice(letters) for _ in range(RNG.choice((5, 5, 6, 6, 7))))
        if RNG.random() < 0.7:
            word = SPACE + word
        for size in range(2, len(word) + 1):
            for at in range(len(word) - size + 1):
                part = word[at : at + size]
                if part not in known and len(tokens) < len(free):
                    known.add(part)
                    tokens.append(part)
    fixed |= dict(zip(free, tokens))
    fixed |= dict(zip(unused, singles))
    for index in range(COUNT):
        fixed.setdefault(index, f"<unused{index}>")
    return [fixed[i] for i in range(COUNT)]


def splits(tokens):
    known = set(tokens)
    special = set(SPECIALS.values())
    runs, others = [], []
    for token in tokens:
        if token in special or (token.startswith("<0x") and len(token) == 6):
            continue
        pairs = [(token[:i], token[i:]) for i in range(len(token) - 1, 0, -1)]
        pairs = [p for p in pairs if p[0] in known and p[1] in known]
        (runs if set(token) in ({"\n"}, {SPACE}) else others).extend(pairs)
    runs.sort(key=lambda p: (-len(p[0]), -len(p[1])))
    return runs + others


def main():
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    tokens = vocabulary()
    merges = splits(tokens)[:MERGES]
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    around = [{"SpecialToken": {"id": "<bos>", "type_id": 0}}]
    around += [{"Sequence": {"id": "A", "type_id": 0}}]
    around += [{"SpecialToken": {"id": "<eos>", "type_id": 0}}]
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": c, **flags, "normalized": False, "special": True}
            for i, c in sorted(SPECIALS.items())
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": around,
            "pair": around,
            "special_tokens": {
                "<bos>": {"id": "<bos>", "ids": [2], "tokens": ["<bos>"]},
                "<eos>": {"id": "<eos>", "ids": [1], "tokens": ["<eos>"]},
            },
        },
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [" ".join(m) for m in merges] if "--strings" in sys.argv else merges,
        },
    }
    compact = "--compact" in sys.argv
    text = json.dumps(file, ensure_ascii="--ascii" in sys.argv, indent=None if compact else 2)
    (target / "tokenizer.json").write_text(text, encoding="utf-8")
    (target / "tokenizer_config.json").write_text('{"tokenizer_class": "GemmaTokenizer"}')
    size = sum(len(t.encode()) for t in tokens)
    print(f"{len(tokens)} tokens of {size} bytes, {len(merges)} merges, {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
