#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/image/golden/: picture files with what Pillow makes of them, and results of
torchvision, torch and pycocotools for inputs that the unit test makes itself.

pictures.bin: records of u16 name length, name, u8 alpha (1: over white), u8 exif, u32 size, file,
u32 width, u32 height (0: refused), u32 CRC-32 of the RGB bytes; little-endian.
numbers.txt: one case a line, described in golden_test.cc.
"""

import io
import pathlib
import random
import struct
import sys
import warnings
import zlib

import numpy as np
import torch
from PIL import Image, ImageOps
from pycocotools import mask as coco
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as tvf

warnings.simplefilter("ignore")
RNG = random.Random(20240607)
OUT = pathlib.Path(__file__).resolve().parent.parent / "unit" / "image" / "golden"


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def lcg_bytes(count):
    state, out = 1, bytearray()
    for _ in range(count):
        out.append(state >> 24)
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
    return bytes(out)


PASSES = [
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
]
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def filtered(rows, step):
    """Rows with a random filter each; `step` bytes a pixel."""
    out, above = bytearray(), bytes(len(rows[0]) if rows else 0)
    for row in rows:
        kind = RNG.randrange(5)
        out.append(kind)
        for i, value in enumerate(row):
            a = row[i - step] if i >= step else 0
            b = above[i]
            c = above[i - step] if i >= step else 0
            pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
            paeth = a if pa <= pb and pa <= pc else (b if pb <= pc else c)
            out.append((value - (0, a, b, (a + b) // 2, paeth)[kind]) & 255)
        above = row
    return bytes(out)


def png(width, height, depth, colour, interlace, extra=()):
    bits = CHANNELS[colour] * depth
    data = bytearray()
    for x0, y0, dx, dy in PASSES if interlace else [(0, 0, 1, 1)]:
        columns, lines = len(range(x0, width, dx)), len(range(y0, height, dy))
        if columns and lines:
            size = (columns * bits + 7) // 8
            rows = [
                bytes(RNG.choice((0, 1, 5, 128, 255, RNG.randrange(256))) for _ in range(size))
                for _ in range(lines)
            ]
            data += filtered(rows, max(1, bits // 8))
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + b"".join(chunk(*e) for e in extra)
        + chunk(b"IDAT", zlib.compress(bytes(data)))
        + chunk(b"IEND", b"")
    )


def reference(data, alpha, exif):
    """RGB array as Pillow makes it, or None where it refuses."""
    try:
        image = Image.open(io.BytesIO(data))
        if image.format not in ("PNG", "JPEG", "MPO"):
            return None
        image.load()
    except Exception:  # noqa: BLE001: any refusal is a refusal
        return None
    try:
        if exif:
            image = ImageOps.exif_transpose(image)
    except Exception:  # noqa: BLE001: damaged EXIF means no change here
        image = Image.open(io.BytesIO(data))
    transparent = "A" in image.getbands() or image.info.get("transparency") is not None
    if alpha and transparent:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255, 255, 255, 255))
        image = Image.alpha_composite(white, image)
    return np.array(image.convert("RGB"))


def picture_files():
    for colour, depths in (
        (0, (1, 2, 4, 8, 16)),
        (2, (8, 16)),
        (3, (1, 2, 4, 8)),
        (4, (8, 16)),
        (6, (8, 16)),
    ):
        for depth in depths:
            for interlace in (0, 1):
                for width, height in ((1, 1), (5, 3), (9, 10), (3, 17)):
                    extra = []
                    if colour == 3:
                        extra.append((b"PLTE", lcg_bytes(3 * RNG.choice((1, 2, 16, 200)))))
                        if RNG.random() < 0.6:
                            extra.append((b"tRNS", lcg_bytes(RNG.choice((1, 2, 100)))))
                    elif colour in (0, 2) and RNG.random() < 0.6:
                        keys = [RNG.choice((0, 1, 2, 3, 5, 85, 255, 256, 257, 65535))] * (
                            3 if colour else 1
                        )
                        extra.append((b"tRNS", struct.pack(f">{len(keys)}H", *keys)))
                    name = f"png c{colour} d{depth} i{interlace} {width}x{height}"
                    yield name, png(width, height, depth, colour, interlace, extra)
    for case in range(36):
        width, height = RNG.choice(((1, 1), (7, 5), (8, 8), (17, 9), (33, 40)))
        y, x = np.mgrid[0:height, 0:width]
        rgb = np.stack([(5 * x + 3 * y) % 256, (x * x + 7 * y) % 256, (9 * (x ^ y)) % 256], -1)
        image = Image.fromarray(rgb.astype(np.uint8))
        mode = ("RGB", "RGB", "L", "CMYK")[case % 4]
        options = {"quality": RNG.choice((30, 75, 95)), "progressive": RNG.random() < 0.4}
        if mode == "RGB":
            options["subsampling"] = case // 4 % 3
        if RNG.random() < 0.3:
            options["restart_marker_blocks"] = 2
        buffer = io.BytesIO()
        image.convert(mode).save(buffer, "JPEG", **options)
        yield f"jpeg {mode} {case}", buffer.getvalue()


def oriented_files():
    small = Image.fromarray(np.frombuffer(lcg_bytes(5 * 3 * 3), np.uint8).reshape(3, 5, 3))
    for value in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9):
        exif = Image.Exif()
        exif[0x0112] = value
        for kind in ("JPEG", "PNG"):
            buffer = io.BytesIO()
            small.save(buffer, kind, exif=exif.tobytes())
            yield f"exif {kind} {value}", buffer.getvalue()
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><d tiff:Orientation="6"/></x:xmpmeta>'
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", xmp=xmp)
    yield "xmp JPEG", buffer.getvalue()
    exif = Image.Exif()
    exif[0x0112] = 8
    block = exif.tobytes()
    profile = b"Raw profile type exif\0"
    text = b"\nexif\n%8d\n%s\n" % (len(block), block.hex().encode())
    itxt = b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(xmp)
    plain = io.BytesIO()
    small.save(plain, "PNG")
    plain = plain.getvalue()
    for name, extra in (
        ("tEXt", chunk(b"tEXt", profile + text)),
        ("zTXt", chunk(b"zTXt", profile + b"\0" + zlib.compress(text))),
        ("iTXt", chunk(b"iTXt", itxt)),
    ):
        yield f"{name} before", plain[:33] + extra + plain[33:]
        yield f"{name} behind", plain[:-12] + extra + plain[-12:]


def damaged(files):
    for index in range(260):
        name, data = RNG.choice(files)
        data = bytearray(data)
        if index % 3 == 0:
            data = data[: RNG.randrange(len(data))]
        elif index % 3 == 1:
            for _ in range(RNG.randrange(1, 4)):
                data[RNG.randrange(len(data))] = RNG.randrange(256)
        else:
            at = data.find(b"IDAT")
            if at < 0:
                data = data[: RNG.randrange(len(data) // 2, len(data))] + b"\xff\xd9"
            else:  # fewer bytes of zlib stream in an IDAT whose checksum nobody looks at
                size = struct.unpack(">I", data[at - 4 : at])[0]
                cut = RNG.randrange(size)
                data = (
                    data[: at - 4] + chunk(b"IDAT", bytes(data[at + 4 : at + 4 + cut])) + data[-12:]
                )
        yield f"damaged {index} {name}", bytes(data)


def write_pictures():
    files = list(picture_files())
    records = [(n, d, a, 1) for n, d in files for a in ((0, 1) if n.startswith("png") else (0,))]
    records += [(n, d, 0, e) for n, d in oriented_files() for e in (0, 1)]
    short = [f for f in files if len(f[1]) < 900]
    records += [(n, d, 0, 1) for n, d in damaged(short)]
    out = bytearray()
    for name, data, alpha, exif in records:
        # Incomplete progressive files differ between versions of libjpeg-turbo.
        if name.startswith("damaged") and "jpeg" in name and b"\xff\xc2" in data:
            continue
        rgb = reference(data, alpha, exif)
        width, height, crc = (
            (0, 0, 0) if rgb is None else (rgb.shape[1], rgb.shape[0], zlib.crc32(rgb.tobytes()))
        )
        text = name.encode()
        out += (
            struct.pack("<H", len(text)) + text + struct.pack("<BBI", alpha, exif, len(data)) + data
        )
        out += struct.pack("<III", width, height, crc)
    (OUT / "pictures.bin").write_bytes(out)
    return files


def write_numbers():
    lines = []
    for _ in range(60):
        h, w, oh, ow = (RNG.choice((1, 2, 3, 7, 16, 33, 64, 130, 257)) for _ in range(4))
        if (oh, ow) == (1, 1):
            continue
        image = (
            torch.frombuffer(bytearray(lcg_bytes(h * w * 3)), dtype=torch.uint8)
            .reshape(h, w, 3)
            .permute(2, 0, 1)
        )
        for name, mode in (
            ("bilinear", InterpolationMode.BILINEAR),
            ("bicubic", InterpolationMode.BICUBIC),
        ):
            result = tvf.resize(image, [oh, ow], interpolation=mode, antialias=True)
            crc = zlib.crc32(result.permute(1, 2, 0).contiguous().numpy().tobytes())
            lines.append(f"resize {name} {h} {w} {oh} {ow} {crc:08x}")
    for h, w, oh, ow in (
        (288, 288, 480, 640),
        (288, 288, 100, 120),
        (72, 72, 1008, 333),
        (20, 31, 90, 200),
        (16, 16, 16, 400),
    ):
        values = np.frombuffer(lcg_bytes(h * w), np.uint8).reshape(h, w).astype(np.float32) / 256
        maps = torch.from_numpy(values).expand(4, h, w).contiguous()[None]
        result = torch.nn.functional.interpolate(
            maps, (oh, ow), mode="bilinear", align_corners=False
        )[0, 0]
        area = int((result > 0.5).sum())
        lines.append(
            f"mask {h} {w} {oh} {ow} {zlib.crc32(result.contiguous().numpy().tobytes()):08x} {area}"
        )
    for mean, std in (
        ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ):
        x = torch.arange(256, dtype=torch.uint8)
        table = []
        for m, s in zip(mean, std):
            fused_m, fused_s = (torch.tensor([v]) * (1.0 / (1 / 255)) for v in (m, s))
            table.append((x.to(torch.float32) - fused_m) / fused_s)
        crc = zlib.crc32(torch.stack(table).numpy().tobytes())
        lines.append("normalize " + " ".join(map(repr, mean + std)) + f" {crc:08x}")
    for index in range(80):
        h, w = RNG.randrange(1, 71), RNG.randrange(1, 71)
        cut = RNG.choice((0, 1, 30, 128, 250, 255))
        flat = np.frombuffer(lcg_bytes(h * w + index)[index:], np.uint8).reshape(h, w)
        mask = np.asfortranarray((flat < cut).astype(np.uint8))
        rle = coco.encode(mask)
        box = " ".join(str(int(v)) for v in coco.toBbox(rle))
        lines.append(
            f"rle {index} {h} {w} {cut} {int(coco.area(rle))} {box} {rle['counts'].decode()}"
        )
    (OUT / "numbers.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(2)
    picture_list = write_pictures()
    write_numbers()
    if len(sys.argv) > 1:  # seeds for the fuzzer
        seeds = pathlib.Path(sys.argv[1])
        seeds.mkdir(parents=True, exist_ok=True)
        chosen = picture_list[::11] + [f for f in oriented_files()][::3]
        for seed_name, seed in chosen:
            (seeds / seed_name.replace(" ", "_")).write_bytes(seed)
