#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# npuseg-cli on NPU bundles: bundle_test.py TOOL TEST_BUNDLES DEMO_EMBEDDER DEMO_SAM3
import json
import os
import struct
import sys
import unittest

from support import ToolTest, npy, run, write_png

BUNDLES, CHECKPOINT, DEMO = (os.path.abspath(path) for path in sys.argv[2:5])
GEMMA = os.path.join(BUNDLES, "gemma")
SAM3 = os.path.join(BUNDLES, "sam3")


def bundle(name):
    return os.path.join(BUNDLES, name)


class Bundles(ToolTest):
    def document(self, *args, status=0):
        done = run(*args, "--json", "-")
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)

    def rows(self, command, path, status=0):
        answer = self.document(command, path, status=status)
        self.assertEqual(answer["format"], f"npuseg-{command}-1")
        self.assertEqual(answer["passed"], status == 0)
        failed = [row for row in answer["rows"] if row["state"] == "failed"]
        self.assertEqual(answer["failures"], len(failed))
        return {(row["subject"], row["name"]): row for row in answer["rows"]}

    def test_info(self):
        info = self.document("info", GEMMA)
        self.assertEqual(info["model"]["source"], "bundle")
        self.assertEqual(info["model"]["kind"], "embeddinggemma2")
        self.assertEqual(info["needs"]["npu_contexts"], 3)
        self.assertIn("soft", info["devices"])
        self.assertNotIn("cpu", info["devices"])
        self.assertIn(b"3 hardware contexts", run("info", GEMMA).stdout)

    def test_embed(self):
        picture = self.path("a.png")
        write_png(picture, 120, 90)
        answer = self.document("embed", GEMMA, picture, "--text", "the cat", "--pair", picture, "x")
        self.assertEqual(answer["model"]["source"], "bundle")
        self.assertEqual(answer["device"]["asked"], "auto")
        self.assertEqual(answer["device"]["used"], "soft")
        self.assertEqual(answer["dims"], 48)
        self.assertEqual([item["tokens"] for item in answer["items"]], [10, 6, 11])
        for item in answer["items"]:
            self.assertAlmostEqual(sum(v * v for v in item["vector"]), 1.0, 4)
        with open(bundle("expected/text.0.f32"), "rb") as file:
            expected = struct.unpack("<48f", file.read())
        for got, want in zip(answer["items"][1]["vector"], expected):
            self.assertAlmostEqual(got, want, 4)
        raw = self.path("raw")
        done = run("embed", GEMMA, picture, "--raw", raw)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(npy(os.path.join(raw, "0_input_ids.npy"))[1], (10,))
        self.assertEqual(npy(os.path.join(raw, "0_pixel_values.npy"))[1], (54, 192))
        self.assertEqual(npy(os.path.join(raw, "0_position_ids.npy"))[1], (54, 2))

    def test_refusals(self):
        self.fails(4, "--device", "xrt", "embed", GEMMA, "--text", "x")
        self.fails(4, "--precision", "bf16", "embed", GEMMA, "--text", "x")
        self.fails(4, "--device", "soft", "embed", CHECKPOINT, "--text", "x")
        self.fails(1, "--device", "soft:quick", "embed", GEMMA, "--text", "x")
        self.assertIn("SAM 3", self.fails(3, "embed", SAM3, "--text", "x"))
        self.assertIn("embed", self.fails(3, "segment", GEMMA, "a.png", "-p", "x"))
        self.assertIn("tensors", self.fails(3, "embed", bundle("cut"), "--text", "x"))
        self.fails(2, "embed", bundle("gemma_pictures"), "--text", "x")
        # An output must not replace a file of the bundle, in a folder of it either.
        kernel = os.path.join(GEMMA, "kernels", "txt.xclbin")
        self.fails(1, "info", GEMMA, "--json", kernel)

    def test_check(self):
        for device in ("auto", "soft:faithful"):
            done = run("--device", device, "check", GEMMA)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            lines = done.stdout.decode().splitlines()
            self.assertEqual(lines[-1], "ALL CHECKS PASSED")
            self.assertTrue(all(line.startswith(("  [ok]   ", "  [info] ")) for line in lines[:-1]))
        rows = self.rows("check", GEMMA)
        row = rows["picture synth", "embedding"]
        self.assertEqual((row["compare"], row["bound"]), ("at least", 0.999))
        self.assertGreaterEqual(row["value"], 0.999)
        rows = self.rows("check", bundle("wrong"), 3)
        self.assertEqual(
            {key for key, row in rows.items() if row["state"] == "failed"},
            {("picture synth", "pixels"), ("text 1", "ids"), ("text 2", "embedding")},
        )
        done = run("check", bundle("wrong"))
        self.assertEqual(done.returncode, 3)
        self.assertIn(
            b"FAILED: picture synth pixels, text 1 ids, text 2 embedding", done.stdout
        )
        self.fails(3, "check", CHECKPOINT)
        self.fails(3, "check", bundle("gemma_pictures"))
        self.fails(1, "check")
        self.fails(1, "check", GEMMA, "--text", "x")

    def test_sam3(self):
        info = self.document("info", SAM3)
        self.assertEqual((info["model"]["kind"], info["model"]["source"]), ("sam3", "bundle"))
        self.assertEqual(info["needs"]["npu_contexts"], 15)
        done = run("--device", "soft:faithful", "check", SAM3)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(done.stdout.decode().splitlines()[-1], "ALL CHECKS PASSED")
        rows = self.rows("check", bundle("sam3_swapped"), 3)
        self.assertEqual(rows["neck", "level 1"]["state"], "failed")
        self.assertEqual(rows["ViT", "map"]["state"], "ok")
        self.fails(3, "check", bundle("sam3_host"))

    def test_verify(self):
        for path in (GEMMA, SAM3, CHECKPOINT, bundle("summed")):
            done = run("verify", path)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertEqual(done.stdout.decode().splitlines()[-1], "ALL FILES VERIFIED")
        rows = self.rows("verify", bundle("cut"), 3)
        self.assertEqual(rows["tensors.txt", "structure"]["state"], "failed")
        rows = self.rows("verify", bundle("pointer"), 3)
        self.assertIn("git lfs", rows["kernels/txt.xclbin", "structure"]["detail"])
        if ("tensors.bin", "SHA-256") in self.rows("verify", bundle("summed")):
            rows = self.rows("verify", bundle("flipped"), 3)
            self.assertEqual(
                [key for key, row in rows.items() if row["state"] == "failed"],
                [("tensors.bin", "SHA-256")],
            )
            self.assertIn(b"FAILED: tensors.bin SHA-256", run("verify", bundle("flipped")).stdout)
        self.fails(3, "verify", self.path("none"))
        self.fails(1, "verify", GEMMA, SAM3)

    def test_repack(self):
        made = self.path("new")
        kernels = bundle("sam3_kernels")
        done = run("repack", DEMO, "--kernels", kernels, "-o", made + "/")
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
        self.assertEqual(done.stdout.decode().splitlines()[-1], "ALL CHECKS PASSED")
        rows = self.rows("check", made)
        for key, least in {
            ("text encoder", "tokens"): 0.9999,
            ("ViT", "map"): 0.98,
            ("neck", "level 0"): 0.9999,
            ("DETR encoder", "map"): 0.9997,
            ("DETR decoder", "hidden"): 0.9997,
            ("mask decoder", "masks"): 0.9999,
        }.items():
            self.assertGreaterEqual(rows[key]["value"], least, key)
        # The bundle finds what the checkpoint finds.
        picture = os.path.join(DEMO, "samples", "a.png")
        for model in (DEMO, made):
            found = self.document("segment", model, picture, "-p", "purple squares")["images"][0]
            self.assertEqual(len(found["prompts"][0]["instances"]), 2, model)
        # What is there stays as it is.
        before = sorted(os.listdir(made))
        self.assertIn(made, self.fails(2, "repack", DEMO, "--kernels", kernels, "-o", made))
        self.assertEqual(sorted(os.listdir(made)), before)

    def test_repack_without_reference(self):
        made = self.path("bare")
        report = self.document(
            "--quiet", "repack", DEMO, "--kernels", bundle("sam3_kernels_bare"), "-o", made
        )
        self.assertTrue(report["passed"])
        self.assertEqual(report["model"]["path"], made)
        subjects = {row["subject"] for row in report["rows"] if row["name"] == "structure"}
        self.assertIn("tensors.txt", subjects)

    def test_repack_refusals(self):
        kernels = bundle("sam3_kernels")
        new = self.path("x")
        self.fails(1, "repack", DEMO, "-o", new)
        self.fails(1, "repack", DEMO, "--kernels", kernels)
        self.fails(1, "repack", DEMO, DEMO, "--kernels", kernels, "-o", new)
        self.fails(1, "repack", DEMO, "--kernels", kernels, "-o", new, "-p", "x")
        self.fails(1, "check", SAM3, "--kernels", kernels)
        self.fails(2, "repack", DEMO, "--kernels", kernels, "-o", self.path("no/x"))
        self.fails(1, "repack", DEMO, "--kernels", kernels, "-o", new, "--json",
                   os.path.join(kernels, "tensors.bin"))
        for checkpoint, with_kernels, part in (
            (DEMO, SAM3, "in the bundle"),
            (DEMO, GEMMA, "EmbeddingGemma 2"),
            (DEMO, DEMO, "manifest.txt"),
            (SAM3, kernels, "is a bundle"),
            (CHECKPOINT, kernels, "EmbeddingGemma"),
            (self.path("none"), kernels, "none"),
            (DEMO, self.path("none"), "none"),
        ):
            text = self.fails(3, "repack", checkpoint, "--kernels", with_kernels, "-o", new)
            self.assertIn(part, text)
            self.assertFalse(os.path.exists(new))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
