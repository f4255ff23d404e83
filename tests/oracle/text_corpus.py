#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/text/golden/corpus.z: 10,000 texts and what transformers' CLIPTokenizer makes
of them with the demo tokenizer and with a tokenizer made here.

usage: text_corpus.py [TOKENIZER_DIR OUTPUT]   with arguments: only that tokenizer, same layout

Layout (zlib, little-endian): u32 n, n bytes (tokenizer.json of the made tokenizer, empty for one
from TOKENIZER_DIR), u32 count, then per text u32 size, bytes, and per tokenizer (demo, made; or the
one given) u32 CRC32 of the ids as u32, BOS and EOS included. Needs transformers (requirements.txt).
"""

import json
import pathlib
import random
import struct
import sys
import tempfile
import unicodedata
import zlib

from transformers import CLIPTokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNT = 10000
RNG = random.Random(20261201)
WORDS = (
    "a the red green circle square ring dog cats photo of on wooden bench DON'T it's we'll I'd "
    "they've I'm rock'n'roll 'tis ''s !'s e-mail@example.com C++ #1 100% $5 3.14 1,000 visual "
    "and all or with without naïve café Straße STRASSE İstanbul ΟΔΟΣ Ий Москва مرحبا שלום "
    "नमस्ते สวัสดี 한국어 黒い猫 こんにちは 你好 ガ &amp; &lt;b&gt; &#39; <br/> http://x.y/z?q=1 "
    "2024-01-01 ½ ² Ⅳ १२ ﬁ Ａ 𝕏 K Å Ω"
).split()
SPECIALS = [
    "<|startoftext|>",
    "<|endoftext|>",
    "<|StartOfText|>",
    "<|ENDOFTEXT|>",
    "<|endoftext",
    "|>",
    "<|",
    "<|startoftext|",
    "<start_of_text>",
    "<|end",
    "oftext|>",
    "<|<|endoftext|>",
]
SPACES = [
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\u00a0",
    "\u0085",
    "\u2028",
    "\u3000",
    "\u1680",
    "\u200b",
    "\u001c",
    "\u180e",
    "\ufeff",
    "\u2060",
    "\u0000",
    "\u000b",
]
BLOCKS = [
    (0x21, 0x7E),
    (0xA1, 0x24F),
    (0x250, 0x36F),
    (0x370, 0x52F),
    (0x531, 0x6FF),
    (0x700, 0x8FF),
    (0x900, 0xDFF),
    (0xE00, 0x10FF),
    (0x1100, 0x11FF),
    (0x1200, 0x1CFF),
    (0x1D00, 0x1FFF),
    (0x2000, 0x2BFF),
    (0x2C00, 0x30FF),
    (0x3100, 0x9FFF),
    (0xA000, 0xABFF),
    (0xAC00, 0xD7FF),
    (0xE000, 0xF8FF),
    (0xF900, 0xFAFF),
    (0xFB00, 0xFFFF),
    (0x10000, 0x10FFF),
    (0x11000, 0x11FFF),
    (0x12000, 0x16FFF),
    (0x17000, 0x1CFFF),
    (0x1D000, 0x1DFFF),
    (0x1E000, 0x1EFFF),
    (0x1F000, 0x1FBFF),
    (0x20000, 0x323AF),
    (0xE0000, 0x10FFFF),
]
MARKS = [chr(c) for c in range(0x300, 0x20000) if unicodedata.combining(chr(c))]
COMPOSED = [
    chr(c) for c in range(0xC0, 0x30000) if unicodedata.decomposition(chr(c))[:1] not in ("", "<")
]
EMOJI = [
    "\U0001f600",
    "\u2764\ufe0f",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44d\U0001f3fd",
    "\U0001f1fa\U0001f1f8",
    "\U0001f3f4\U000e0067\U000e007f",
    "1\ufe0f\u20e3",
]
# Letters, marks and compositions newer than Unicode 9: the reference's parts differ in version.
RECENT = [
    "\u1c89",
    "\ua7cb",
    "\ua7ce",
    "\ua7dc",
    "\U00016ea0",
    "\U00010d50",
    "\U0002ebf0",
    "\u07fd",
    "\u08ca",
    "\u1abf",
    "\U00011935\U00011930",
    "\U00011938",
    "\U0001e2ec",
    "\U000105d2\u0307",
    "\u0c3c",
    "\u0897",
]


def some(low, high):
    return RNG.randrange(low, high + 1)


def from_block():
    low, high = RNG.choice(BLOCKS)
    return "".join(
        chr(c) for c in (some(low, high) for _ in range(some(1, 6))) if not 0xD800 <= c < 0xE000
    )


def marked():
    return RNG.choice("aeiouAE\u03b1\u0438\u05d0\u3042\uac00") + "".join(
        RNG.choice(MARKS) for _ in range(some(1, 4))
    )


def word():
    kind = some(0, 15)
    if kind < 6:
        text = RNG.choice(WORDS)
        return (text, text.upper(), text.title())[some(0, 2)] if kind == 5 else text
    if kind == 6:
        return RNG.choice(SPECIALS)
    if kind == 7:
        return unicodedata.normalize(
            "NFD", "".join(RNG.choice(COMPOSED) for _ in range(some(1, 3)))
        )
    if kind == 8:
        return marked()
    if kind == 9:
        return RNG.choice(EMOJI)
    if kind == 10:
        return RNG.choice(RECENT) + (RNG.choice(MARKS) if some(0, 1) else "")
    if kind == 11:
        return "".join(RNG.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(some(1, 20)))
    if kind == 12:
        return "".join(
            RNG.choice("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~0123456789s") for _ in range(some(1, 8))
        )
    return from_block()


def corpus():
    texts = [
        "",
        " ",
        "\0",
        "\ufeff",
        "a" * 600,
        "x" * 1000,
        "word " * 40,
        "\U0001f600" * 100,
        "".join(SPECIALS),
        "'" * 50,
        "a\u0301" * 100,
        "".join(SPACES),
    ]
    while len(texts) < COUNT:
        text = "".join(
            word() + (RNG.choice(SPACES) if some(0, 3) == 0 else " " if some(0, 3) else "")
            for _ in range(some(1, 6))
        )
        texts.append(text)
    return texts


def byte_symbols():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {b: chr(b) for b in plain}
    for b in range(256):
        table.setdefault(b, chr(0x100 + len(table) - len(plain)))
    return table


def made_tokenizer(texts):
    """Merges of random neighbours in words of the corpus; ids in no order; 12 byte symbols missing;
    start token found in normalised text, end token in raw text, as in the released files."""
    table = byte_symbols()
    words = []
    for text in texts:
        for part in text.lower().split():
            symbols = [table[b] for b in part[:40].encode()]
            words.append(symbols[:-1] + [symbols[-1] + "</w>"])
    missing = RNG.sample(range(0x80, 0x100), 12)
    tokens = [s + e for b, s in table.items() if b not in missing for e in ("", "</w>")]
    known, merges = set(tokens), {}
    while len(merges) < 2000:
        symbols = RNG.choice(words)
        if len(symbols) < 2:
            continue
        at = some(0, len(symbols) - 2)
        pair = (symbols[at], symbols[at + 1])
        if pair[0] not in known or pair[1] not in known or pair in merges:
            continue
        merges[pair] = None
        known.add("".join(pair))
        for other in words:  # as training does, so that later merges build on earlier ones
            for i in range(len(other) - 1):
                if i + 1 < len(other) and (other[i], other[i + 1]) == pair:
                    other[i : i + 2] = ["".join(pair)]
    specials = ["<|startoftext|>", "<|endoftext|>"]
    tokens = sorted(known.difference(specials)) + specials
    RNG.shuffle(tokens)
    vocab = {token: i for i, token in enumerate(tokens)}
    start, end = vocab["<|startoftext|>"], vocab["<|endoftext|>"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": c, "normalized": n, **flags}
            for i, c, n in sorted([(start, "<|startoftext|>", True), (end, "<|endoftext|>", False)])
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": ["<|endoftext|>", end],
            "cls": ["<|startoftext|>", start],
            "trim_offsets": False,
            "add_prefix_space": False,
        },
        "decoder": None,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<|endoftext|>",
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "</w>",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [" ".join(m) for m in merges],
        },
    }


def main():
    texts = corpus()
    made = b""
    if len(sys.argv) > 2:
        tokenizers = [CLIPTokenizer.from_pretrained(sys.argv[1])]
        target = pathlib.Path(sys.argv[2])
    else:
        made = json.dumps(made_tokenizer(texts), ensure_ascii=some(0, 1) == 0).encode()
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "tokenizer.json").write_bytes(made)
            pathlib.Path(folder, "tokenizer_config.json").write_text(
                '{"tokenizer_class": "CLIPTokenizer"}'
            )
            tokenizers = [
                CLIPTokenizer.from_pretrained(ROOT / "demo/sam3"),
                CLIPTokenizer.from_pretrained(folder),
            ]
        target = ROOT / "tests/unit/text/golden/corpus.z"
    columns = [
        [zlib.crc32(struct.pack(f"<{len(ids)}I", *ids)) for ids in t(texts).input_ids]
        for t in tokenizers
    ]
    out = bytearray(struct.pack("<I", len(made)) + made + struct.pack("<I", len(texts)))
    for index, text in enumerate(texts):
        data = text.encode()
        out += struct.pack("<I", len(data)) + data
        out += struct.pack(f"<{len(columns)}I", *(column[index] for column in columns))
    target.write_bytes(zlib.compress(bytes(out), 9))


if __name__ == "__main__":
    main()
