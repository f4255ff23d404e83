#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Exit statuses, text, JSON, files and interruption of npuseg-cli: cli_test.py TOOL DEMO_MODEL
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from support import TOOL, ToolTest, npy, run, write_png

MODEL = os.path.abspath(sys.argv[2])
SAMPLES = os.path.join(MODEL, "samples")
A = os.path.join(SAMPLES, "a.png")


def runs_to_bytes(mask):
    """COCO compressed run lengths to column-major 0/1 bytes."""
    counts, at, text = [], 0, mask["counts"]
    while at < len(text):
        value = shift = 0
        while True:
            c = ord(text[at]) - 48
            at += 1
            value |= (c & 31) << shift
            shift += 5
            if not c & 32:
                if c & 16:
                    value |= -1 << shift
                break
        if len(counts) > 2:
            value += counts[-2]
        counts.append(value)
    return b"".join(bytes([i & 1]) * n for i, n in enumerate(counts))


class Cli(ToolTest):
    def answer(self, *args, status=0):
        done = run("segment", *args, "--json", "-")
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def test_usage(self):
        done = run()
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"usage", done.stderr)
        for args in (["--help"], ["--version"], ["segment", "--help"], ["info", "--help"]):
            done = run(*args)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertTrue(done.stdout)
        for command in ("doctor", "check", "verify", "repack", "dance"):
            self.assertIn(command, self.fails(1, command))
        base = ["segment", MODEL, A]
        for more in (
            [],
            ["-p"],
            ["--not-box", "1,1,9,9"],
            ["-p", "x", "--wat"],
            ["-p", "x", "--threads", "-1"],
            ["-p", "x", "--threads=two"],
            ["-p", "x", "--precision", "f64"],
            ["-p", "x", "--exif", "no"],
            ["-p", "x", "--alpha", "12345"],
            ["-p", "x", "--reps", "0"],
            ["-p", "x", "--quiet=1"],
            ["-p", "x", A, "-o", self.path("o.png")],
        ):
            self.fails(1, *base, *more)
        for value in ("-0.1", "1.1", "nan", "inf", "0,5", "", "0.5x", "+-0.5"):
            self.fails(1, *base, "-p", "x", "--threshold", value)
            self.fails(1, *base, "-p", "x", "--mask-threshold=" + value)
        for option in (["--text", "x"], ["--pair", "x", "y"], ["--input", "x"], ["--similarity"]):
            self.fails(1, *base, "-p", "x", *option)

    def test_bad_inputs(self):
        base = ["segment", MODEL, A]
        for box in ("1,2,3", "1,2,3,4,5", "1,2,3,nan", "1,2,3,inf", "1, 2,3,4", "a,b,c,d",
            "1,2,3,1e99",
                    "1,2,3,4,", ""):
            self.fails(2, *base, "--box", box)
        self.fails(2, *base, "--box", "50,50,40,60")
        self.assertIn("32", self.fails(2, *base, "-p", "square " * 60))
        self.fails(2, *base, "-p", b"\xed\xa0\x80")
        self.fails(2, "segment", MODEL, self.path("none.png"), "-p", "x")
        self.fails(2, "segment", MODEL, self.dir, "-p", "x")
        self.fails(3, "segment", self.dir, A, "-p", "x")
        self.fails(3, "info", self.path("none"))
        self.fails(4, *base, "-p", "x", "--device", "xrt")

    def test_one_bad_picture(self):
        bad = self.path("bad.png")
        with open(bad, "wb") as file:
            file.write(b"\x89PNG\r\n\x1a\nno")
        found = self.answer(MODEL, A, bad, A, "-p", "triangle", status=2)["images"]
        self.assertEqual([i["path"] for i in found], [A, bad, A])
        self.assertEqual(set(found[1]), {"path", "error"})
        self.assertEqual(set(found[1]["error"]), {"status", "message"})
        self.assertEqual(found[0]["prompts"], found[2]["prompts"])

    def test_json(self):
        found = self.answer(
            "-p", "triangle", "--box=120,128,204,217", "--not-box", "1,1,30,30", MODEL, A
        )
        self.assertEqual(list(found), ["format", "library", "model", "device", "images"])
        self.assertEqual(found["format"], "npuseg-segment-1")
        self.assertEqual(found["model"], {"kind": "sam3", "source": "checkpoint", "path": MODEL})
        self.assertEqual((found["device"]["asked"], found["device"]["used"]), ("auto", "cpu"))
        self.assertTrue(found["device"]["why"])
        image = found["images"][0]
        self.assertEqual((image["width"], image["height"]), (320, 240))
        self.assertEqual(list(image["ms"]), ["decode", "preprocess", "image", "prompts"])
        prompt = image["prompts"][0]
        self.assertEqual(
            prompt["boxes"],
            [{"box": [120, 128, 204, 217], "label": 1}, {"box": [1, 1, 30, 30], "label": 0}],
        )
        for one in prompt["instances"]:
            self.assertEqual(list(one), ["query", "score", "box", "area", "mask"])
            self.assertEqual(sum(runs_to_bytes(one["mask"])), one["area"])
        alone = self.answer(MODEL, A, "--box", "120,128,204,217")["images"][0]["prompts"][0]
        self.assertIsNone(alone["text"])
        self.assertEqual(len(self.answer(MODEL, A, "-p", "")["images"][0]["prompts"]), 1)

    def test_thresholds(self):
        every = self.answer(MODEL, A, "-p", "shapes", "--threshold", "0")["images"][0]["prompts"][0]
        scores = [(-i["score"], i["query"]) for i in every["instances"]]
        self.assertEqual(scores, sorted(scores))
        self.assertGreater(len(scores), 4)
        none = self.answer(MODEL, A, "-p", "shapes", "--threshold", "1")["images"][0]["prompts"][0]
        self.assertEqual(none["instances"], [])

    def test_demo_expected(self):
        with open(os.path.join(SAMPLES, "expected.json"), encoding="utf-8") as file:
            expected = json.load(file)
        for image in expected["images"]:
            picture = os.path.join(SAMPLES, image["file"])
            for want in image["prompts"]:
                ask = ["-p", want["text"]]
                if "box" in want:
                    ask = ["--box", ",".join(map(str, want["box"]))]
                got = self.answer(MODEL, picture, *ask)["images"][0]["prompts"][0]
                where = (image["file"], ask)
                self.assertAlmostEqual(got["presence"], want["presence"], delta=1e-5, msg=where)
                rows = list(zip(want["scores"], want["boxes"], want["masks"]))
                rows.sort(key=lambda row: -row[0])
                self.assertEqual(len(got["instances"]), len(rows), where)
                for one, (score, box, mask) in zip(got["instances"], rows):
                    # The stored values are rounded to 1e-6 and 1e-3.
                    self.assertAlmostEqual(one["score"], score, delta=1e-5, msg=where)
                    for a, b in zip(one["box"], box):
                        self.assertAlmostEqual(a, b, delta=1.5e-3, msg=where)
                    self.assertEqual(one["mask"]["size"], mask["size"])
                    mine, theirs = runs_to_bytes(one["mask"]), runs_to_bytes(mask)
                    self.assertEqual(len(mine), len(theirs))
                    self.assertLessEqual(sum(a != b for a, b in zip(mine, theirs)), 4, where)

    def test_text_from_another_folder(self):
        shutil.copy(A, self.path("a.png"))
        done = run("--quiet", "segment", MODEL, "a.png", "-p", "triangle", "--threads=1",
            cwd=self.dir)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(
            done.stdout.decode(),
            r'^a\.png  320x240  "triangle": 1 instance\n'
            r"  1  score 0\.601  box \[190\.5, 21\.4, 222\.8, 60\.3\]  mask 54\d px\n$",
        )

    def test_files(self):
        os.mkdir(self.path("x"))
        shutil.copy(A, self.path("a.png"))
        shutil.copy(A, self.path("x/a.png"))
        out = [self.path(n) for n in ("over", "masks", "raw", "all.json")]
        done = run("segment", MODEL, self.path("a.png"), self.path("x/a.png"), "-p", "triangle",
            "-p",
                   "shapes", "--overlay-dir", out[0], "--masks", out[1], "--raw", out[2],
                   "--json", out[3])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(os.listdir(out[0])), ["a-2.png", "a.png"])
        numbers = ["1_1", "2_1", "2_2", "2_3", "2_4"]
        names = [f"{stem}_{n}.png" for stem in ("a", "a-2") for n in numbers]
        self.assertEqual(sorted(os.listdir(out[1])), sorted(names))
        with open(out[3], encoding="utf-8") as file:
            self.assertEqual(len(json.load(file)["images"]), 2)
        raw = {name: npy(os.path.join(out[2], name))[:2] for name in os.listdir(out[2])}
        self.assertEqual(len(raw), 2 * (1 + 2 * 6))
        side = raw["0_pixel_values.npy"][1][1]
        queries = raw["0_0_pred_logits.npy"][1][0]
        h, w = raw["0_0_semantic_seg.npy"][1][1:]
        self.assertEqual(raw["0_pixel_values.npy"], ("<f4", (3, side, side)))
        self.assertEqual(raw["1_1_pred_logits.npy"], ("<f4", (queries,)))
        self.assertEqual(raw["1_1_presence_logits.npy"], ("<f4", (1,)))
        self.assertEqual(raw["1_1_pred_boxes.npy"], ("<f4", (queries, 4)))
        self.assertEqual(raw["1_1_pred_masks.npy"], ("<f4", (queries, h, w)))
        self.assertEqual(raw["1_1_semantic_seg.npy"], ("<f4", (1, h, w)))
        self.assertEqual((raw["1_1_input_ids.npy"][0], len(raw["1_1_input_ids.npy"][1])), ("<i8",
            1))

    def test_outputs_never_replace_inputs_or_each_other(self):
        picture = self.path("a.png")
        odd = self.path("0_pixel_values.npy")  # pictures are recognised by content
        mask = self.path("a_1_12.png")
        for copy in (picture, odd, mask):
            shutil.copy(A, copy)
        model = self.path("model")
        shutil.copytree(MODEL, model, ignore=shutil.ignore_patterns("samples"))
        link, hard = self.path("link"), self.path("hard.png")
        os.symlink(self.dir, link)
        os.link(picture, hard)
        before = {n: os.stat(self.path(n)).st_ino for n in os.listdir(self.dir)}
        base = ["segment", model, picture, "-p", "shapes"]
        config = os.path.join(model, "config.json")
        for more in (
            ["-o", picture],
            ["-o", os.path.join(link, "a.png")],
            ["-o", self.dir + "/./model/../a.png"],
            ["-o", hard],
            ["-o", config],
            ["--json", picture],
            ["--json", config],
            ["--overlay-dir", self.dir],
            ["--overlay-dir", link],
            [mask, "--masks", self.dir],
            [mask, "--masks", self.dir + "/"],
            [odd, "--raw", self.dir],
            ["-o", self.path("x"), "--json", self.path("x")],
            ["-o", self.path("o/a.png"), "--overlay-dir", self.path("o")],
            ["--masks", self.path("o"), "--json", self.path("o/a_1_2.png")],
            ["--raw", self.path("o"), "--json", self.path("o/0_0_pred_boxes.npy")],
            ["--masks", self.path("o"), "--overlay-dir", self.path("o"), mask],
        ):
            if any("/o/" in word for word in more):
                os.makedirs(self.path("o"), exist_ok=True)
            begin = time.monotonic()
            self.fails(1, *base, *more)
            self.assertLess(time.monotonic() - begin, 5)
            if os.path.isdir(self.path("o")):
                os.rmdir(self.path("o"))  # nothing was written there
        for command in (["info", model], ["info", model, "--quiet"]):
            self.fails(1, *command, "--json", config)
        self.assertEqual({n: os.stat(self.path(n)).st_ino for n in os.listdir(self.dir)}, before)
        for copy in (picture, odd, mask):
            with open(copy, "rb") as a, open(A, "rb") as b:
                self.assertEqual(a.read(), b.read())
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        for option in ("--json", "-o"):
            for target in (fifo, self.dir, "/dev/full", self.path("none/x"), "/proc/x"):
                self.fails(2, *base, option, target)
            self.assertFalse(os.path.isfile(fifo))
        for option in ("--masks", "--overlay-dir", "--raw"):
            for target in (fifo, picture, self.path("none/x"), "/proc/x"):
                self.fails(2, *base, option, target)

    def test_arguments(self):
        base = ["segment", MODEL, A]
        for more in (
            ["--threads", "99999999999999999999"],
            ["--threads", "1025"],
            ["--threads", "1e3"],
            ["--threads", ""],
            ["--reps", "-1"],
            ["--reps", "100001"],
            ["--threshold", "NaN"],
            ["--threshold", "-0.0001"],
            ["--threshold", "1e-"],
            ["--mask-threshold", "infinity"],
            ["--alpha", "-12345"],
            ["--alpha", "1234567"],
            ["--log", ""],
            ["--json", ""],
            ["-o"],
            ["--masks"],
            ["-pcat"],
            ["---p"],
            ["--threads"],
        ):
            self.fails(1, *base, "-p", "x", *more)
        for command in (["info", MODEL], ["devices"]):
            for more in (["-p", "x"], ["--box", "1,2,3,4"], ["--reps", "2"], ["-o", "x.png"]):
                self.fails(1, *command, *more)
        self.fails(1, "devices", "x")
        self.fails(1, "info", MODEL, MODEL)
        self.fails(1, "info")
        self.fails(1, "segment", "-p", "x")
        self.fails(1, *base, "-p", "x", "--device", "gpu")
        for word in ("bf16", "int8"):
            self.assertIn(word, self.fails(4, *base, "-p", "x", "--precision", word))
        self.fails(3, "segment", self.dir, A, "-p", "x", "--precision", "bf16")
        # A line break in a name is not one in the message.
        self.fails(2, "segment", MODEL, self.path("a\nb\x1b[1m.png"), "-p", "x")
        self.fails(2, "segment", MODEL, "", "-p", "x")
        # Behind -- everything is a name; options may stand behind names; later values win.
        odd = "-odd.png"
        shutil.copy(A, self.path(odd))
        for args in (
            ["segment", "-p", "triangle", "--", MODEL, odd],
            ["--threads=1", "segment", MODEL, "-p", "triangle", "--", odd],
            ["segment", MODEL, "-p", "triangle", "--threads", "7", "--threads", "1", "--", odd],
        ):
            done = run(*args, cwd=self.dir)
            self.assertEqual((done.returncode, done.stderr), (0, b""), args)
            self.assertTrue(done.stdout.startswith(b"-odd.png  320x240"))
        self.fails(2, "segment", MODEL, "-p", "x", "--", "--help")
        # Boxes may leave the picture, not lie beside it; a prompt may be empty.
        self.assertEqual(run(*base, "--box", "-5,-5.5,1e3,+200").returncode, 0)
        self.fails(2, *base, "--box", "-50,-50,-1,-1")
        done = run(*base, "-p", "")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.fails(2, *base, *(["--box", "1,1,9,9"] * 1001))

    def test_a_bad_prompt_leaves_the_others(self):
        done = run("segment", MODEL, A, "-p", "triangle", "-p", "red " * 60, "--json", "-")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        prompts = json.loads(done.stdout)["images"][0]["prompts"]
        self.assertEqual(len(prompts[0]["instances"]), 1)
        self.assertEqual(set(prompts[1]), {"text", "boxes", "error"})

    def test_full_disk(self):
        old = self.path("old.json")
        with open(old, "w", encoding="utf-8") as file:
            file.write("old")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

        done = run("segment", MODEL, A, "-p", "shapes", "--json", old, "-o", self.path("o.png"),
                   preexec_fn=limit)
        self.assertEqual(done.returncode, 2, done.stderr)
        with open(old, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(os.listdir(self.dir), ["old.json"])
        with open("/dev/full", "wb") as full:
            for args in (["--version"], ["devices"], ["segment", MODEL, A, "-p", "x"]):
                self.assertNotEqual(run(*args, stdout=full).returncode, 0, args)

    def test_closed_pipe(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = run("segment", MODEL, A, "-p", "x", stdout=writer)
        os.close(writer)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"standard output", done.stderr)

    def interrupt(self, after, *args):
        """Seconds that a run takes from SIGINT to its end."""
        with subprocess.Popen([TOOL, "segment", MODEL, *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            time.sleep(after)
            child.send_signal(signal.SIGINT)
            begin = time.monotonic()
            error = child.communicate(timeout=60)[1]
            spent = time.monotonic() - begin
        self.assertEqual(child.returncode, 130, error)
        self.assertRegex(error.decode(), r"(?m)^npuseg-cli: error: stopped: npuseg-cli: .+; .+$")
        return spent

    def test_interrupt(self):
        target = self.path("out.json")
        ask = [A, "-p", "shapes", "--reps", "100000", "--json", target]
        # Half a second of CPU work; the rest is room for a loaded machine.
        self.assertLess(min(self.interrupt(1, *ask) for _ in range(3)), 0.5)
        self.assertEqual(os.listdir(self.dir), [])

    def test_interrupt_while_large_pictures_are_read_and_written(self):
        big = self.path("big.png")
        write_png(big, 4500, 3500)
        out = [self.path(n) for n in ("over", "masks", "raw", "all.json")]
        ask = [big] * 20 + ["-p", "shapes", "--overlay-dir", out[0], "--masks", out[1], "--raw",
            out[2], "--json", out[3]]
        slowest = 0.0
        for after in (0.3, 0.8, 1.3, 2.0, 3.1):
            slowest = max(slowest, min(self.interrupt(after, *ask) for _ in range(2)))
            for folder, folders, files in os.walk(self.dir):
                self.assertFalse([name for name in folders if ".png." in name])
                for name in files:
                    self.assertRegex(name, r"\.(png|npy)$")
                    if name.endswith(".png") and folder != self.dir:
                        with open(os.path.join(folder, name), "rb") as file:
                            self.assertEqual(file.read()[-8:-4], b"IEND")
            self.assertFalse(os.path.exists(out[3]))
        self.assertLess(slowest, 1)

    def test_info_and_devices(self):
        info = json.loads(run("info", MODEL, "--json", "-").stdout)
        self.assertEqual((info["format"], info["model"]["kind"]), ("npuseg-info-1", "sam3"))
        self.assertGreater(info["model"]["parameters"], 0)
        self.assertIn(b"sam3", run("info", MODEL).stdout)
        devices = json.loads(run("devices", "--json=-").stdout)["devices"]
        self.assertTrue(any(d["name"] == "cpu" and d["usable"] for d in devices))
        for device in devices:
            self.assertTrue(device["reason"])
            self.assertTrue(device["usable"] or device["remedy"])

    def test_reps(self):
        done = run("segment", MODEL, A, "-p", "triangle", "--reps", "2")
        self.assertEqual((done.returncode, done.stdout.count(b"instance")), (0, 1))
        self.assertRegex(done.stderr,
            rb"vit +min [0-9.]+  median [0-9.]+  max [0-9.]+ ms  \(2 runs\)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
