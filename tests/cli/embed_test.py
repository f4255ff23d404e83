#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# npuseg-cli embed: embed_test.py TOOL DEMO_EMBEDDER DEMO_SAM3
import array
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

from support import TOOL, ToolTest, npy, run, write_png

MODEL, SAM3 = (os.path.abspath(a) for a in sys.argv[2:4])
SAMPLES = os.path.join(MODEL, "samples")
RED = os.path.join(SAMPLES, "01-red-circle.png")
FOUR = os.path.join(SAMPLES, "06-four.jpg")
with open(os.path.join(SAMPLES, "expected.json"), encoding="utf-8") as expected_file:
    EXPECTED = json.load(expected_file)
PICTURES = [os.path.join(SAMPLES, p["file"]) for p in EXPECTED["pictures"]]


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def link_model(folder, without=()):
    """The demo model as links, so that single files can be replaced."""
    os.mkdir(folder)
    for name in os.listdir(MODEL):
        if name not in without and name != "samples":
            os.symlink(os.path.join(MODEL, name), os.path.join(folder, name))
    return folder


class Embed(ToolTest):
    def answer(self, *args, status=0, **more):
        done = run("embed", *args, "--json", "-", **more)
        self.assertEqual(done.returncode, status, done.stderr[:2000])
        self.error = done.stderr.decode("utf-8", "replace")
        self.assertEqual(self.error == "", status == 0, self.error[:2000])
        return json.loads(done.stdout)

    def lines(self, lines, *args, status=0):
        """The answer to a file of these lines, given as text or as objects."""
        name = self.path("in.jsonl")
        with open(name, "wb") as file:
            for line in lines:
                line = json.dumps(line) if isinstance(line, dict) else line
                file.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
        return self.answer(MODEL, "--input", name, *args, status=status)["items"]

    def near(self, a, b, delta=1e-5):
        self.assertEqual(len(a), len(b))
        self.assertLessEqual(max(abs(x - y) for x, y in zip(a, b)), delta)

    def test_usage(self):
        for args in (
            ["embed"],
            ["embed", MODEL],
            ["embed", MODEL, RED, "-p", "x"],
            ["embed", MODEL, RED, "--exif", "apply"],
            ["embed", MODEL, RED, "-o", self.path("x.png")],
            ["embed", MODEL, RED, "--text"],
            ["embed", MODEL, RED, "--pair"],
            ["embed", MODEL, "--pair", RED],
            ["embed", MODEL, RED, "--dims", "0"],
            ["embed", MODEL, RED, "--dims", "x"],
            ["embed", MODEL, RED, "--task", ""],
            ["embed", MODEL, RED, "--reps", "0"],
            ["embed", MODEL, RED, "--similarity=1"],
            ["info", MODEL, "--text", "x"],
            ["devices", "--npy", self.path("x.npy")],
        ):
            self.fails(1, *args)
        self.assertEqual(run("embed", "--help").returncode, 0)

    def test_expected(self):
        """Vectors, tokens and similarities of the reference implementation."""
        texts = []
        for text in EXPECTED["texts"]:
            texts.append({"items": [{"text": text["text"]}], "task": text["prompt_name"] or "none"})
        name = self.path("in")
        with open(name, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in texts)
        for dims in (128, 64, 32):
            got = self.answer(
                MODEL, *PICTURES, "--input", name, "--similarity", "--dims", str(dims)
            )
            self.assertEqual(got["dims"], dims)
            items = got["items"]
            n = len(PICTURES)
            for item, want in zip(items, EXPECTED["pictures"] + EXPECTED["texts"]):
                self.assertEqual(item["tokens"], want.get("tokens", len(want.get("input_ids", []))))
                self.assertAlmostEqual(dot(item["vector"], item["vector"]), 1, delta=1e-6)
                if dims == 128:
                    self.near(item["vector"], want["embedding"])
            for i, row in enumerate(EXPECTED["similarity_by_dimensions"][str(dims)]):
                self.near(got["similarity"][n + i][:n], row)
        self.assertEqual([i["path"] for i in items[:n]], PICTURES)
        self.assertEqual([i["task"] for i in items[n:]], [line["task"] for line in texts])

    def test_json(self):
        got = self.answer(
            "--text", "café ☃", MODEL, RED, "--pair", FOUR, "x y", FOUR, "--task", "query",
            "--similarity",
        )
        self.assertEqual(
            list(got), ["format", "library", "model", "device", "dims", "items", "similarity"]
        )
        self.assertEqual(got["format"], "npuseg-embed-1")
        self.assertEqual(
            got["model"], {"kind": "embeddinggemma2", "source": "checkpoint", "path": MODEL}
        )
        self.assertEqual((got["device"]["asked"], got["device"]["used"]), ("auto", "cpu"))
        text, red, pair, four = got["items"]
        self.assertEqual(list(text), ["kind", "text", "task", "tokens", "vector"])
        self.assertEqual((text["kind"], text["text"], text["task"]), ("text", "café ☃", "query"))
        self.assertEqual(list(red), ["kind", "path", "tokens", "vector"])
        self.assertEqual((red["kind"], red["path"], red["tokens"]), ("image", RED, 68))
        self.assertEqual(list(pair), ["kind", "path", "text", "tokens", "vector"])
        self.assertEqual((pair["kind"], pair["path"], pair["text"]), ("pair", FOUR, "x y"))
        self.assertGreater(pair["tokens"], four["tokens"])
        for i, a in enumerate(got["items"]):
            for value in a["vector"]:
                self.assertEqual(float32(value), float32(float(repr(value))))
            for k, b in enumerate(got["items"]):
                self.assertAlmostEqual(
                    got["similarity"][i][k], dot(a["vector"], b["vector"]), delta=1e-6
                )
        self.assertNotIn("similarity", self.answer(MODEL, RED))

    def test_task_is_for_texts(self):
        alone = self.answer(MODEL, RED, "--text", "cat", "--pair", RED, "cat")["items"]
        asked = self.answer(MODEL, RED, "--text", "cat", "--pair", RED, "cat", "--task",
                            "document")["items"]
        self.assertEqual(alone[0], asked[0])
        self.assertEqual(alone[2], asked[2])
        self.assertNotEqual(alone[1]["vector"], asked[1]["vector"])
        self.assertIsNone(alone[1]["task"])
        none = self.answer(MODEL, "--text", "cat", "--task", "none")["items"][0]
        self.assertEqual((none["vector"], none["task"]), (alone[1]["vector"], "none"))
        by_hand = self.answer(MODEL, "--text", "title: none | text: cat")["items"][0]
        self.assertEqual(by_hand["vector"], asked[1]["vector"])
        message = self.fails(1, "embed", MODEL, "--text", "x", "--task", "Query")
        for name in ("none", "query", "document", "SearchQuery"):
            self.assertIn(name, message)

    def test_dims(self):
        for dims in ("300", "127", "129", "1000000"):
            self.assertIn("128, 64, 32", self.fails(1, "embed", MODEL, RED, "--dims", dims))
        whole = self.answer(MODEL, RED)["items"][0]["vector"]
        for dims in (64, 32):
            cut = self.answer(MODEL, RED, "--dims", str(dims))["items"][0]["vector"]
            norm = math.sqrt(dot(whole[:dims], whole[:dims]))
            self.near(cut, [v / norm for v in whole[:dims]], 1e-6)

    def test_table(self):
        done = run("embed", MODEL, os.path.relpath(RED, SAMPLES), "--text", "a\tred", "--task",
                   "query", cwd=SAMPLES)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertRegex(
            done.stdout.decode(),
            r"^  1  image +68 tokens  \[( *-?0\.\d{4}, ){4}\.\.\.\] 128  01-red-circle\.png\n"
            r'  2  text +\d+ tokens  \[( *-?0\.\d{4}, ){4}\.\.\.\] 128  "a red"  \(query\)\n$',
        )
        done = run("embed", MODEL, "01-red-circle.png", "--text", "yes", "--similarity",
                   cwd=SAMPLES)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(len(lines), 6)
        self.assertEqual(lines[3].split(), ["1", "2"])
        self.assertRegex(lines[4], r"^  1   1\.0000  +-?\d\.\d{4}  01-red-circle\.png$")
        self.assertRegex(lines[5], r'^  2 +-?\d\.\d{4}   1\.0000  "yes"$')

    def test_npy_and_raw(self):
        vectors, raw = self.path("v.npy"), self.path("raw")
        name = self.path("in")
        with open(name, "w", encoding="utf-8") as file:
            file.write(json.dumps({"items": [{"image": RED}, {"text": "x"}, {"image": FOUR}]}))
        got = self.answer(MODEL, RED, "--text", "two words", "--pair", FOUR, "t", "--input", name,
                          "--npy", vectors, "--raw", raw)["items"]
        descr, shape, data = npy(vectors)
        self.assertEqual((descr, shape), ("<f4", (4, 128)))
        rows = array.array("f", data).tolist()
        self.assertEqual(rows, [float32(v) for item in got for v in item["vector"]])
        files = {n: npy(os.path.join(raw, n)) for n in os.listdir(raw)}
        self.assertEqual(
            sorted(files),
            sorted(
                [f"{i}_input_ids.npy" for i in range(4)]
                + [f"{i}_{n}.npy" for i in ("0", "2", "3_0", "3_1")
                   for n in ("pixel_values", "position_ids")]
            ),
        )
        for i, item in enumerate(got):
            self.assertEqual(files[f"{i}_input_ids.npy"][:2], ("<i8", (item["tokens"],)))
        soft = EXPECTED["pictures"][0]["soft_tokens"]
        ids = array.array("q", files["0_input_ids.npy"][2]).tolist()
        self.assertEqual((ids[0], ids[-1]), (2, 1))
        self.assertEqual(ids[2:-2], [1019] * soft)
        for prefix in ("0", "2", "3_0", "3_1"):
            patches = files[f"{prefix}_position_ids.npy"][1][0]
            self.assertEqual(files[f"{prefix}_position_ids.npy"][:2], ("<i8", (patches, 2)))
            descr, shape, data = files[f"{prefix}_pixel_values.npy"]
            self.assertEqual((descr, shape), ("<f4", (patches, 3 * 8 * 8)))
            values = array.array("f", data)
            self.assertTrue(0 <= min(values) and max(values) <= 1)
        self.assertEqual(files["0_position_ids.npy"][1][0], 4 * soft)
        places = array.array("q", files["0_position_ids.npy"][2]).tolist()
        self.assertEqual(places[:4], [0, 0, 1, 0])
        for text in EXPECTED["texts"][:2]:
            run("embed", MODEL, "--text", text["text"], "--task", text["prompt_name"] or "none",
                "--raw", raw)
            ids = array.array("q", npy(os.path.join(raw, "0_input_ids.npy"))[2]).tolist()
            self.assertEqual(ids, text["input_ids"])

    def test_input_lines(self):
        good = self.answer(MODEL, RED, "--text", "a cat", "--pair", FOUR, "a cat", "--text", "")
        got = self.lines(
            [
                "\ufeff" + json.dumps({"items": [{"image": RED}]}),
                "",
                {"items": [{"text": "a cat"}]},
                " \t\r",
                {"items": [{"image": FOUR}, {"text": "a cat"}], "exif": "apply", "alpha": "drop"},
                '{"items":[{"text":""}]}\r',
                {"items": [{"text": "a "}, {"text": "cat"}]},
                {"items": [{"text": "a "}, {"image": RED}, {"image": RED}, {"text": "cat"}]},
                {"items": [{"image": RED}], "task": "document", "alpha": "00ff7F"},
                {"items": [{"text": "a\u0000b 猫 \U0001F600"}], "task": "query"},
            ]
        )
        for a, b in zip(got, good["items"]):
            self.assertEqual((a["vector"], a["tokens"]), (b["vector"], b["tokens"]))
        self.assertEqual([i["line"] for i in got], [1, 3, 5, 6, 7, 8, 9, 10])
        self.assertEqual([i["kind"] for i in got],
                         ["image", "text", "pair", "text", "parts", "parts", "image", "text"])
        self.assertEqual(got[4]["vector"], got[1]["vector"])  # texts are joined
        self.assertGreater(got[5]["tokens"], 2 * (68 - 2) + 2)
        self.assertEqual(got[5]["items"][2], {"image": RED})
        self.assertEqual((got[6]["task"], got[7]["task"]), ("document", "query"))
        self.assertNotEqual(got[6]["vector"], got[0]["vector"])
        # The last line needs no end, and standard input is a file, too.
        line = json.dumps({"items": [{"text": "a cat"}]}).encode()
        by_pipe = self.answer(MODEL, "--input", "-", input=line)["items"]
        self.assertEqual([i["vector"] for i in by_pipe], [got[1]["vector"]])
        self.assertEqual(self.answer(MODEL, "--input", "-", "--similarity", input=b"\n"),
                         {**self.answer(MODEL, "--input", "-", input=b""), "similarity": []})

    def test_bad_lines(self):
        text = '{"items":[{"text":"x"}]'
        bad = [
            "{", "[]", "1", "null", '"x"', "{}", text, text + "}}", text + "} {}", "nonsense",
            '{"items":[]}', '{"items":{}}', '{"items":[1]}', '{"items":[{}]}', '{"items":null}',
            '{"items":[{"text":1}]}', '{"items":[{"image":null}]}', '{"items":[{"image":""}]}',
            '{"items":[{"image":"a\\u0000b"}]}', '{"items":[{"audio":"x"}]}',
            '{"items":[{"text":"x","image":"y"}]}', '{"items":[{"text":"x","text":"y"}]}',
            text + ',"items":[{"text":"y"}]}', text + ',"exfi":"apply"}', text + ',"exif":1}',
            text + ',"exif":"no"}', text + ',"alpha":"12345"}', text + ',"alpha":"-12345"}',
            text + ',"task":7}', text + ',"task":""}', text + ",}", "{'items':[]}",
            '{"items":[{"text":"\\ud800"}]}', '{"items":[{"text":"\\udc00 x"}]}',
            '{"items":[{"text":"\\ud800\\u0041"}]}', '{"items":[{"text":"tab\there"}]}',
            '{"items":[{"text":"\\x41"}]}', b'{"items":[{"text":"\xff"}]}',
            b'{"items":[{"text":"\xed\xa0\x80"}]}', '{"items":[{"text":"x"}],"n":1e999999}',
            "[" * 100000, '{"items":' + "[" * 5000 + "]" * 5000 + "}",
            '{"a":' * 3000 + "1" + "}" * 3000, "\0",
        ]
        fine = {"items": [{"text": "fine"}]}
        got = self.lines([fine, *bad, fine], status=2)
        self.assertEqual(len(got), len(bad) + 2)
        self.assertEqual(got[0]["vector"], got[-1]["vector"])
        errors = self.error.splitlines()
        self.assertEqual(len(errors), len(bad), self.error[:3000])
        for i, (item, line) in enumerate(zip(got[1:-1], errors)):
            self.assertEqual(set(item), {"kind", "line", "error", "vector"}, item)
            self.assertIsNone(item["vector"])
            self.assertEqual(item["line"], i + 2)
            self.assertIn(f"line {i + 2}: ", line)
            self.assertRegex(line, r"^npuseg-cli: error: [^:]+: .+: .+; .+$")
            self.assertLess(len(line), 400)
        # Lines that are read and whose input is refused.
        got = self.lines(
            [
                {"items": [{"text": "x"}], "task": "nope"},
                {"items": [{"image": self.path("none.png")}]},
                {"items": [{"text": "<|image|>"}]},
                {"items": [{"image": MODEL}, {"text": "x"}]},
                fine,
                {"items": [{"text": ""}] * 65537},
            ],
            "--npy", self.path("v.npy"), "--similarity", status=2,
        )
        self.assertEqual([i["vector"] is None for i in got], [1, 1, 1, 1, 0, 1])
        self.assertEqual([i["error"]["status"] for i in got if "error" in i],
                         ["INVALID_ARGUMENT", "NOT_FOUND", "INVALID_ARGUMENT", "IO",
                          "LIMIT_EXCEEDED"])
        descr, shape, data = npy(self.path("v.npy"))
        self.assertEqual(shape, (6, 128))
        values = array.array("f", data)
        for i in range(6):
            self.assertEqual(any(math.isnan(v) for v in values[i * 128 : i * 128 + 128]), i != 4)
        matrix = self.answer(MODEL, "--input", self.path("in.jsonl"), "--similarity",
                             status=2)["similarity"]
        self.assertEqual([[v is None for v in row].count(False) for row in matrix],
                         [0, 0, 0, 0, 1, 0])
        for name in (self.path("none"), self.dir, "/proc/self/mem"):
            self.fails(2, "embed", MODEL, "--input", name)
        self.assertIn("1 GiB", self.fails(2, "embed", MODEL, "--input", "/dev/zero"))

    def test_placeholders(self):
        image, audio, video = "<|image|>", "<|audio|>", "<|video|>"
        plain = self.answer(MODEL, RED)["items"][0]
        first = self.answer(MODEL, "--pair", RED, "b")["items"][0]
        last = self.lines([{"items": [{"text": "b"}, {"image": RED}]}])[0]
        got = self.lines(
            [
                {"items": [{"image": RED}, {"text": image}]},
                {"items": [{"image": RED}, {"text": image + "b"}]},
                {"items": [{"image": RED}, {"text": "b" + image}]},
                {"items": [{"text": "<|ima"}, {"image": RED}, {"text": "ge|>"}]},
                {"items": [{"text": image + image}, {"image": RED}, {"image": RED}]},
                {"items": [{"image": RED}, {"image": RED}]},
            ]
        )
        self.assertEqual(got[0]["vector"], plain["vector"])
        self.assertEqual(got[1]["vector"], first["vector"])
        self.assertEqual(got[2]["vector"], last["vector"])
        self.assertEqual(got[3]["vector"], plain["vector"])
        self.assertEqual(got[4]["vector"], got[5]["vector"])
        self.assertEqual(got[5]["tokens"], 2 * (plain["tokens"] - 2) + 2)
        refused = self.lines(
            [
                {"items": [{"text": image}]},
                {"items": [{"text": audio}]},
                {"items": [{"text": video}]},
                {"items": [{"image": RED}, {"text": image + image}]},
                {"items": [{"image": RED}, {"text": audio}]},
                {"items": [{"image": RED}, {"text": image + video}]},
                {"items": [{"image": RED}, {"image": RED}, {"text": image}]},
            ],
            status=2,
        )
        for item in refused:
            self.assertEqual(item["error"]["status"], "INVALID_ARGUMENT")
        self.assertRegex(refused[3]["error"]["message"], r"<\|image\|> 2 times.* 1;")
        self.fails(2, "embed", MODEL, "--text", "a " + image + " b")
        # Begin and end tokens and other special strings are ordinary text.
        for word in ("<bos>", "<eos>", "<pad>", "<|image>", "<image|>", "<|turn>", "<|image |>"):
            self.answer(MODEL, "--text", word + " x")
        bare = self.answer(MODEL, "--text", "<bos>x")["items"][0]["tokens"]
        self.assertEqual(bare, self.answer(MODEL, "--text", "x")["items"][0]["tokens"] - 1)

    def test_texts(self):
        empty = self.answer(MODEL, "--text", "")["items"][0]
        self.assertEqual(empty["tokens"], 2)
        self.assertAlmostEqual(dot(empty["vector"], empty["vector"]), 1, delta=1e-6)
        self.fails(2, "embed", MODEL, "--text", b"\xed\xa0\x80")
        self.fails(2, "embed", MODEL, "--text", b"\xff")
        begin = time.monotonic()
        item = self.lines([{"items": [{"text": "red circle " * 950000}]}], status=2)[0]
        self.assertLess(time.monotonic() - begin, 60)
        self.assertEqual(item["error"]["status"], "LIMIT_EXCEEDED")
        self.assertRegex(item["error"]["message"], r"\d{7,} tokens, the model takes at most 8192; ")
        self.assertLess(len(self.error), 1000)

    def test_pictures(self):
        tiny, wide, tall = (self.path(n) for n in ("1x1.png", "w.png", "t.png"))
        write_png(tiny, 1, 1)
        write_png(wide, 3000, 10)
        write_png(tall, 10, 3000)
        bad = self.path("bad.png")
        with open(bad, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\nno")
        got = self.answer(MODEL, tiny, bad, wide, self.path("none.jpg"), tall, RED, status=2)
        self.assertEqual([i["path"] for i in got["items"]],
                         [tiny, bad, wide, self.path("none.jpg"), tall, RED])
        self.assertEqual(["error" in i for i in got["items"]], [0, 1, 0, 1, 0, 0])
        self.assertEqual(len(self.error.splitlines()), 2)
        self.assertEqual([got["items"][i]["tokens"] for i in (0, 2, 4)], [68, 74, 74])
        self.assertEqual(got["items"][5]["vector"], self.answer(MODEL, RED)["items"][0]["vector"])
        for item in got["items"]:
            if "error" not in item:
                self.assertAlmostEqual(dot(item["vector"], item["vector"]), 1, delta=1e-6)

    def test_same_bytes(self):
        """Alone, in a batch and on any number of threads."""
        ask = [*PICTURES, "--text", "a", "--text", "red ring " * 40, "--pair", RED, "x"]
        one = self.answer("--threads", "1", MODEL, *ask)["items"]
        two = self.answer("--threads", "2", MODEL, *ask)["items"]
        self.assertEqual(one, two)
        self.assertEqual(one[2], self.answer(MODEL, PICTURES[2])["items"][0])
        self.assertEqual(one[-2], self.answer(MODEL, "--text", "red ring " * 40)["items"][0])

    def test_models(self):
        self.assertIn("segment", self.fails(3, "embed", SAM3, RED))
        self.assertIn("embed", self.fails(3, "segment", MODEL, RED, "-p", "x"))
        self.fails(3, "embed", self.dir, RED)
        self.fails(3, "embed", self.path("none"), RED)
        self.fails(3, "embed", RED, RED)
        exact = self.answer(MODEL, RED)["items"][0]["vector"]
        for precision, least in (("f32", 1.0 - 1e-6), ("bf16", 0.9999), ("int8", 0.999)):
            close = self.answer(MODEL, RED, "--precision", precision)["items"][0]["vector"]
            self.assertGreater(sum(a * b for a, b in zip(exact, close)), least)
        self.fails(3, "embed", SAM3, RED, "--precision", "bf16")
        self.fails(4, "embed", MODEL, RED, "--device", "xrt")
        self.fails(1, "embed", MODEL, RED, "--device", "gpu")
        needed = ["config.json", "model.safetensors", "tokenizer.json"]
        for name in needed:
            model = link_model(self.path("without-" + name), [name])
            self.assertIn(name.split(".")[0], self.fails(3, "embed", model, RED))
        for name in needed + ["processor_config.json", "config_sentence_transformers.json",
                              "modules.json", "tokenizer_config.json"]:
            model = link_model(self.path("cut-" + name), [name])
            with open(os.path.join(MODEL, name), "rb") as file:
                data = file.read()
            for part in (0, len(data) // 2, len(data) - 3):
                with open(os.path.join(model, name), "wb") as file:
                    file.write(data[:part])
                self.assertIn(name, self.fails(3, "embed", model, RED))

    def test_a_token_around_a_placeholder(self):
        """A tokenizer that reads "x<|image|>" as one token leaves no place for the picture."""
        model = link_model(self.path("model"), ["tokenizer.json"])
        with open(os.path.join(MODEL, "tokenizer.json"), encoding="utf-8") as file:
            tokenizer = json.load(file)
        for entry in tokenizer["added_tokens"]:
            if entry["content"] == "<|turn>":
                entry["content"] = "x<|image|>"
        vocab = tokenizer["model"]["vocab"]
        vocab["x<|image|>"] = vocab.pop("<|turn>")
        with open(os.path.join(model, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        self.assertEqual(run("embed", model, "--pair", RED, "<|image|>x").returncode, 0)
        self.fails(2, "embed", model, "--pair", RED, "x<|image|>")
        self.fails(2, "embed", model, "--pair", RED, "<|image|>x<|image|>")

    def test_info(self):
        info = json.loads(run("info", MODEL, "--json", "-").stdout)
        self.assertEqual(info["model"]["kind"], "embeddinggemma2")
        self.assertEqual(
            {k: info["model"][k] for k in ("embedding_dim", "soft_tokens", "max_tokens")},
            {"embedding_dim": 128, "soft_tokens": 70, "max_tokens": 8192},
        )
        self.assertIn(b"embeddinggemma2", run("info", MODEL).stdout)
        other = self.path("other")
        os.mkdir(other)
        with open(os.path.join(other, "config.json"), "w", encoding="utf-8") as file:
            json.dump({"model_type": "gemma3_text"}, file)
        for args in (["info", other], ["embed", other, RED], ["segment", other, RED, "-p", "x"]):
            self.assertIn("Gemma 3", self.fails(3, *args))

    def test_outputs_never_replace_inputs(self):
        picture, lines = self.path("0_pixel_values.npy"), self.path("in")
        shutil.copy(RED, picture)
        with open(lines, "w", encoding="utf-8") as file:
            file.write(json.dumps({"items": [{"image": picture}]}))
        base = ["embed", link_model(self.path("model")), "--input", lines]
        before = {n: os.stat(self.path(n)).st_ino for n in os.listdir(self.dir)}
        for more in (
            ["--npy", picture],
            ["--npy", lines],
            ["--json", lines],
            ["--json", picture],
            ["--json", os.path.join(self.dir, "model", "config.json")],
            ["--npy", os.path.join(self.dir, "model", "tokenizer.json")],
            ["--raw", self.dir],
            ["--npy", self.path("x"), "--json", self.path("x")],
            ["--raw", self.path("raw"), "--npy", self.path("raw/0_input_ids.npy")],
        ):
            if "raw/" in more[-1]:
                os.mkdir(self.path("raw"))
            self.fails(1, *base, *more)
        os.rmdir(self.path("raw"))
        for more in (["--npy", self.dir], ["--npy", self.path("none/x")], ["--raw", lines]):
            self.fails(2, *base, *more)
        self.assertEqual({n: os.stat(self.path(n)).st_ino for n in os.listdir(self.dir)}, before)

    def test_reps_and_full_disk(self):
        done = run("embed", MODEL, RED, "--text", "x", "--reps", "3")
        self.assertEqual((done.returncode, done.stdout.count(b"\n")), (0, 2))
        for stage in (b"decode", b"preprocess", b"vit", b"text"):
            self.assertRegex(
                done.stderr, stage + rb" +min [0-9.]+  median [0-9.]+  max [0-9.]+ ms  \(3 runs\)"
            )
        with open("/dev/full", "wb") as full:
            done = run("embed", MODEL, RED, stdout=full)
        self.assertIn("standard output", self.one_error(done, 2))

    def test_interrupt(self):
        def interrupt(after, *args, **more):
            with subprocess.Popen([TOOL, "embed", MODEL, *args], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, **more) as child:
                time.sleep(after)
                child.send_signal(signal.SIGINT)
                begin = time.monotonic()
                error = child.communicate(timeout=60)[1]
                spent = time.monotonic() - begin
            self.assertEqual(child.returncode, 130, error)
            self.assertRegex(error.decode(), r"(?m)^npuseg-cli: error: stopped: .+: .+; .+$")
            return spent

        target = self.path("out.json")
        ask = [*PICTURES, "--text", "x " * 8000, "--reps", "100000", "--json", target]
        spent = [interrupt(after, *ask) for after in (0.4, 0.9, 1.6)]
        # Half a second of CPU work; the rest is room for a loaded machine.
        self.assertLess(min(spent), 0.5)
        self.assertLess(interrupt(0.5, "--input", "-", stdin=subprocess.PIPE), 2)
        self.assertEqual(os.listdir(self.dir), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
