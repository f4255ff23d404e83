#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/text/golden/gemma_inputs.txt: the ids that sentence-transformers gives the demo
model for inputs of texts and pictures (format: see gemma_input_test.cc).

Pictures are 64 x 64: 64 soft tokens. A case that raises is "refused". Needs sentence-transformers.
"""

import itertools
import pathlib

from PIL import Image
from sentence_transformers import SentenceTransformer

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/unit/text/golden/gemma_inputs.txt"
PICTURE = Image.new("RGB", (64, 64), (200, 40, 90))
SOFT_TOKENS = 64
PROMPTS = ["", "task: search result | query: ", "title: none | text: "]
INPUTS = [
    [""],
    ["two blue stars"],
    ["<bos>a red circle"],
    [" <bos>a"],
    ["a <|image|> b"],
    ["a <|audio|> b"],
    ["<|video|>"],
    ["<|image><image|><|audio><eos><pad>"],
    [PICTURE],
    [PICTURE, "two blue stars"],
    [PICTURE, " two blue stars"],
    ["two blue stars", PICTURE],
    ["two ", PICTURE, " and ", PICTURE],
    [PICTURE, PICTURE],
    ["a <|image|> b", PICTURE],
    [PICTURE, "a <|image|> b"],
    ["<|image|> and <|image|>", PICTURE],
    ["<|image|> and <|image|>", PICTURE, PICTURE],
    ["<|ima", "ge|>", PICTURE],
    ["<|audio|>", PICTURE],
    ["<bos>x", PICTURE],
    ["<bo", "s>x", PICTURE],
    ["a", "b"],
    ["a ", " b", "\n"],
]


def words(parts):
    out = []
    for part in parts:
        out += ["p", SOFT_TOKENS] if part is PICTURE else ["t", "x" + part.encode().hex()]
    return out


def main():
    model = SentenceTransformer(str(ROOT / "demo/embeddinggemma2"), device="cpu")
    lines = []
    for prompt, parts in itertools.product(PROMPTS, INPUTS):
        content = [
            {"type": "image", "image": part} if part is PICTURE else {"type": "text", "text": part}
            for part in parts
        ]
        messages = [{"role": "system", "content": [{"type": "text", "text": prompt}]}]
        messages = (messages if prompt else []) + [{"role": "user", "content": content}]
        line = [len(parts), "x" + prompt.encode().hex(), *words(parts)]
        try:
            ids = model.preprocess([messages])["input_ids"][0].tolist()
            line += ["ids", *ids]
        except Exception as error:  # whatever the reference raises is a refusal
            print(parts, type(error).__name__, str(error)[:100])
            line.append("refused")
        lines.append(" ".join(map(str, line)))
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
