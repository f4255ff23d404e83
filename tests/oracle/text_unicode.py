#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/text/golden/unicode.txt: what the tokenizers library makes of every code point.

Per block of 4096 code points (surrogates left out) five CRC32: of the class digits (0 white space,
1 letter, 2 number, 3 other), and of lower case, NFC, NFC of "a" c U+0334 and NFC of "a" U+0345 c
(which show reordering), each followed by a line feed. Needs tokenizers 0.23.3 (requirements.txt).
"""

import pathlib
import zlib

from tokenizers import Regex, normalizers, pre_tokenizers

NFC, LOWER = normalizers.NFC(), normalizers.Lowercase()
CLASSES = [
    pre_tokenizers.Split(Regex(p), behavior="removed", invert=True)
    for p in (r"\s", r"\p{L}", r"\p{N}")
]


def rows(c):
    kind = next((i for i, split in enumerate(CLASSES) if split.pre_tokenize_str(c)), 3)
    yield str(kind)
    yield LOWER.normalize_str(c) + "\n"
    yield NFC.normalize_str(c) + "\n"
    yield NFC.normalize_str("a" + c + "\u0334") + "\n"
    yield NFC.normalize_str("a\u0345" + c) + "\n"


def main():
    lines = []
    for first in range(0, 0x110000, 4096):
        sums = [0] * 5
        for code in range(first, first + 4096):
            if not 0xD800 <= code < 0xE000:
                for i, text in enumerate(rows(chr(code))):
                    sums[i] = zlib.crc32(text.encode(), sums[i])
        lines.append(f"{first:x} " + " ".join(f"{s:08x}" for s in sums))
    target = pathlib.Path(__file__).resolve().parents[1] / "unit/text/golden/unicode.txt"
    target.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
