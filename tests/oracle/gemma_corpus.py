#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/text/golden/gemma_corpus.z: 10,000 texts and what the tokenizers library makes
of them with the demo tokenizer and with three tokenizers made here.

usage: gemma_corpus.py [TOKENIZER_DIR OUTPUT]   with arguments: only that tokenizer, same layout

The made ones: every byte token, merges through spaces, newlines and tabs; some byte tokens missing
and unknown tokens fused; no byte tokens and unknown tokens not fused. The demo's ids are also those
of transformers' GemmaTokenizer (checked here).

Layout (zlib, little-endian): per made tokenizer (u32 0 when there is none) u32 n, n bytes
(tokenizer.json); u32 count, then per text u32 size, bytes, and per tokenizer u32 CRC32 of the ids
as u32, start and end included. Needs transformers (requirements.txt).
"""

import json
import pathlib
import random
import struct
import sys
import zlib

import text_corpus
from tokenizers import Tokenizer
from transformers import AutoTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNT = 10000
RNG = random.Random(20261202)
SPACE = "\u2581"
MADE = 3
WORDS = (
    "a red circle and two blue stars on a grey background task: search result | query: title: none "
    "| text: yellow triangle square ring cross picture of Which planet is known as the Red Planet?"
).split()
SPECIALS = (
    "<|image|> <|image> <image|> <|audio|> <|audio> <audio|> <|video|> <bos> <eos> <pad> <unk> "
    "<mask> <|turn> <turn|> <|tool_call> <|think|> <image> <|image <<|image|>> <|ima ge|> <0x41> "
    '<0x0A> <|"|> <|image|><|image|> </s> <unused5> <start_of_turn> <table> <| |> < > <b'
).split()


def some(low, high):
    return RNG.randrange(low, high + 1)


def piece():
    kind = some(0, 13)
    if kind < 4:
        return RNG.choice(WORDS)
    if kind < 6:
        return RNG.choice(SPECIALS)
    if kind == 6:
        return RNG.choice([" ", "\n", "\t", SPACE, "\r\n", "\u00a0", "\0"]) * some(1, 40)
    if kind == 7:
        return RNG.choice("ae.-=!x") * some(1, 60)
    if kind == 8:
        return RNG.choice(["\u0378", "\U000e0001", "\ufdd0", "\U0010ffff", "\ue000", "\u2fe0"])
    return text_corpus.word()


def corpus():
    texts = ["", " ", SPACE, "\0", "\ufeff", "\n" * 70, " " * 70, "\t" * 70, "a" * 3000]
    texts += ["ab " * 1500, "\u4e00" * 1000, "".join(SPECIALS), " ".join(SPECIALS), "<" * 100]
    texts += ["<bos>hello", "<bos> a", " <bos>a", "<eos>", "a\u2581b", "line1\nline2", "\n \n\t\n"]
    while len(texts) < COUNT:
        gap = RNG.choice(["", " ", " ", "  "])
        texts.append(gap.join(piece() for _ in range(some(1, 8))))
    return texts


def grow(tokens, texts, count):
    """Merges of neighbours in the corpus, so that later merges build on earlier ones."""
    known, merges = set(tokens), {}
    words = [list(t.replace(" ", SPACE)[:60]) for t in RNG.sample(texts, 4000)]
    words = [w for w in words if len(w) > 1]
    for _ in range(100 * count):
        if len(merges) == count:
            break
        symbols = RNG.choice(words)
        if len(symbols) < 2:
            continue
        at = some(0, len(symbols) - 2)
        pair = (symbols[at], symbols[at + 1])
        if pair[0] not in known or pair[1] not in known or pair in merges:
            continue
        merges[pair] = None
        known.add("".join(pair))
        for other in words:
            i = 0
            while i + 1 < len(other):
                if (other[i], other[i + 1]) == pair:
                    other[i : i + 2] = ["".join(pair)]
                i += 1
    # The same token by other ways too, as in the released file.
    for token in sorted(known):
        for i in range(1, len(token)):
            pair = (token[:i], token[i:])
            if pair[0] in known and pair[1] in known and RNG.random() < 0.5:
                merges.setdefault(pair)
    order = list(merges)
    for _ in range(len(order) // 4):
        i, j = some(0, len(order) - 1), some(0, len(order) - 1)
        order[i], order[j] = order[j], order[i]
    return known, order


def made_tokenizer(texts, index):
    characters = sorted({c for t in texts for c in t.replace(" ", SPACE)})
    characters = [c for c in characters if ord(c) > 0x20 or c in "\n\t\1"]
    common = [c for c in characters if ord(c) < 0x250 or c == SPACE or RNG.random() < 0.2]
    known, merges = grow(common, texts, 1200)
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|image>", "<|image|>", "<image|>"]
    specials += ["<|audio|>", "<|video|>", "<|turn>", "<turn|>"]
    data = [f"<0x{b:02X}>" for b in range(256)]
    if index == 1:
        data = [d for d in data if RNG.random() < 0.9]
    if index == 2:
        data = []
    tokens = sorted(known.difference(specials, data)) + specials + data
    RNG.shuffle(tokens)
    vocab = {token: i for i, token in enumerate(tokens)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "special": True}
    around = lambda name: {"SpecialToken": {"id": name, "type_id": 0}}
    added = [{"id": vocab[c], "content": c, "normalized": False, **flags} for c in specials]
    if index == 1:  # one that is looked for behind the normalizer
        vocab["red circle"] = len(vocab)
        added.append({"id": len(vocab) - 1, "content": "red circle", "normalized": True, **flags})
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda token: token["id"]),
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
        "pre_tokenizer": {
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": False,
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [around("<bos>"), {"Sequence": {"id": "A", "type_id": 0}}, around("<eos>")],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {
                name: {"id": name, "ids": [vocab[name]], "tokens": [name]}
                for name in ("<bos>", "<eos>")
            },
        },
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": index != 2,
            "byte_fallback": index != 2,
            "ignore_merges": False,
            "vocab": {t: i for t, i in vocab.items() if t != "red circle"},
            "merges": [" ".join(m) for m in merges] if index == 1 else merges,
        },
    }


def ids_of(tokenizer, text):
    """As on the path of chat templates: a text that begins with the start token gets no frame."""
    return tokenizer.encode(text, add_special_tokens=not text.startswith("<bos>")).ids


def main():
    texts = corpus()
    made = [b""] * MADE
    if len(sys.argv) > 2:
        tokenizers = [Tokenizer.from_file(str(pathlib.Path(sys.argv[1], "tokenizer.json")))]
        target = pathlib.Path(sys.argv[2])
    else:
        for i in range(MADE):
            made[i] = json.dumps(made_tokenizer(texts, i), ensure_ascii=i == 2).encode()
        demo = ROOT / "demo/embeddinggemma2"
        tokenizers = [Tokenizer.from_file(str(demo / "tokenizer.json"))]
        tokenizers += [Tokenizer.from_str(m.decode()) for m in made]
        reference = AutoTokenizer.from_pretrained(demo)
        for text in texts[:2000]:
            if not text.startswith("<bos>"):
                assert reference(text).input_ids == ids_of(tokenizers[0], text), text
        target = ROOT / "tests/unit/text/golden/gemma_corpus.z"
    out = bytearray()
    for file in made:
        out += struct.pack("<I", len(file)) + file
    out += struct.pack("<I", len(texts))
    for text in texts:
        data = text.encode()
        out += struct.pack("<I", len(data)) + data
        for tokenizer in tokenizers:
            ids = ids_of(tokenizer, text)
            out += struct.pack("<I", zlib.crc32(struct.pack(f"<{len(ids)}I", *ids)))
    target.write_bytes(zlib.compress(bytes(out), 9))
    print(len(out), target.stat().st_size)


if __name__ == "__main__":
    main()
