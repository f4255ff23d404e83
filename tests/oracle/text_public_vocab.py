#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a CLIP tokenizer directory of the public vocabulary, for tests that skip without it.

usage: text_public_vocab.py bpe_simple_vocab_16e6.txt.gz OUTPUT_DIR

The vocabulary file is in the Python package open_clip_torch. The directory gets vocab.json,
merges.txt and a tokenizer_config.json with the flags of the released SAM 3 directory. Then
NPUSEG_CLIP_TOKENIZER=OUTPUT_DIR makes text_clip_tokenizer_test check golden/clip_cases.json.
"""

import gzip
import json
import pathlib
import sys


def main():
    lines = gzip.open(sys.argv[1]).read().decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    tokens = [chr(b) for b in plain] + [chr(0x100 + n) for n in range(256 - len(plain))]
    tokens += [t + "</w>" for t in tokens] + ["".join(line.split()) for line in lines]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    (out / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}))
    (out / "merges.txt").write_text("#version: 0.2\n" + "\n".join(lines) + "\n", encoding="utf-8")
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "special": True}
    (out / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "CLIPTokenizer",
                "pad_token": "<|endoftext|>",
                "model_max_length": 10**30,
                "added_tokens_decoder": {
                    "49406": {"content": tokens[-2], "normalized": True, **flags},
                    "49407": {"content": tokens[-1], "normalized": False, **flags},
                },
            }
        )
    )


if __name__ == "__main__":
    main()
