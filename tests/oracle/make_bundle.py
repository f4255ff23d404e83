#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write a synthetic IRON NPU2 bundle (random weights) for SAM 3 or EmbeddingGemma 2.

The bundle has every record, tensor and file the public programs `sam3` (taconite-sam3 0.1.5)
and `embeddinggemma2` (taconite-embeddinggemma2 0.2.0) ask for, with the right names, shapes
and sizes.  The kernels are placeholders: a minimal but well-formed xclbin (one PDI of junk
bytes) and an instruction stream with a transaction header, the per-core parameter writes of
the GEMM family and, as the last operation, a BLOCKWRITE whose payload describes the kernel
(`NPUT` trailer, below) so that a software NPU can execute it.  A real NPU must never be given
these files.

  make_bundle.py sam3  OUT [--tiny|--full] [--seed N] [--format 1|2] [--host-vit] [--no-tracker]
                           [--clip-vocab bpe_simple_vocab_16e6.txt.gz] [--drop TAG...]
  make_bundle.py gemma OUT [--tiny|--full] [--seed N] [--image-only]

Sizes: sam3 --tiny 4.1 MB (0.5 s) / --full 1.42 GB (20 s); gemma --tiny 1.6 MB / --full 0.96 GB.
The tiny models load and run in the public programs on an emulated device.
Only numpy and the standard library are used.

Stream trailer (32-bit little-endian words, payload of the last operation):
  'NPUT' (0x5455504e), version 1, kind, name (16 bytes, zero padded = 4 words), count, params...
  kind 1 GEMM:  M K N lda c_stride tile_k tile_n ct_k bias planes pair  (mode: word 20)
  kind 2 MHA:   nwin seq heads d q_off q_stride k_off k_stride v_off v_stride o_off o_stride
                scale(f32 bits) base2 kv_word win_word (words 0: not patched; strides in elements)
  kind 3 rope:  T heads hd in_stride out_stride      (heads counts q and k heads together)
  kind 4 addln: T dim eps(f32 bits) res_f32
"""

import argparse, os, struct, sys, zlib, gzip, json
import numpy as np

# numbers


def bf16(x):
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    r = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
    n = np.isnan(np.ascontiguousarray(x, np.float32))
    return np.where(n, ((u >> 16) | 0x40).astype(np.uint16), r)


def bf16_f32(b):
    return (b.astype(np.uint32) << 16).view(np.float32)


def blocks(v):
    """v [..., 8] f32 -> [..., 9] u8 (bfp16ebs8)."""
    u = np.ascontiguousarray(v, np.float32).view(np.uint32)
    neg = (u >> 31).astype(bool)
    e = ((u >> 23) & 0xFF).astype(np.int64)
    m = (u & 0x7FFFFF).astype(np.int64) | np.where(e != 0, 0x800000, 0)
    m = np.where(neg, -m, m)
    E = e.max(-1, keepdims=True)
    s = E - e
    t = np.minimum(17 + s, 62)
    q = m >> t
    rem = m - (q << t)
    half = np.int64(1) << (t - 1)
    q = q + ((rem > half) | ((rem == half) & (q & 1 == 1)))
    q = np.where(s >= 32, np.where(neg, -1, 0), q)
    out = np.empty(v.shape[:-1] + (9,), np.uint8)
    out[..., 0] = E[..., 0]
    out[..., 1:] = np.clip(q, -128, 127).astype(np.int8).view(np.uint8)
    return out


def pack_b(B, g, bias=None):
    """B [K, N] f32 -> packed bytes for geometry g (tile_n, ct_k)."""
    K, N = B.shape
    tn, ck = g["tile_n"], g["ct_k"]
    assert (
        K % g["tile_k"] == 0
        and N % tn == 0
        and g["tile_k"] % ck == 0
        and ck % 8 == 0
        and tn % 8 == 0
    ), g
    # [cb, g, tb, i, t, j] from B[g*ck + i*8 + j, cb*tn + tb*8 + t]
    v = B.reshape(K // ck, ck // 8, 8, N // tn, tn // 8, 8).transpose(3, 0, 4, 1, 5, 2)
    data = blocks(v).reshape(N // tn, -1)
    if bias is None:
        return data.reshape(-1)
    chunk = np.zeros((N // tn, ck * tn // 8 * 9), np.uint8)
    chunk[:, : 2 * tn] = bf16(bias).view(np.uint8).reshape(N // tn, 2 * tn)
    return np.concatenate([chunk, data], 1).reshape(-1)


def pack_random(K, N, g, rng, std, bias=None):
    """A packed matrix of random mantissas: same distribution for every block, made fast."""
    E = int(np.floor(np.log2(std / 73.0))) + 133
    tn, ck = g["tile_n"], g["ct_k"]
    n = N // tn * (K * tn // 8)
    d = np.frombuffer(rng.bytes(n * 9), np.uint8).reshape(n, 9).copy()
    d[:, 0] = E
    d = d.reshape(N // tn, -1)
    if bias is None:
        return d.reshape(-1)
    chunk = np.zeros((N // tn, ck * tn // 8 * 9), np.uint8)
    chunk[:, : 2 * tn] = bf16(bias).view(np.uint8).reshape(N // tn, 2 * tn)
    return np.concatenate([chunk, d], 1).reshape(-1)


# files


def xclbin(nargs, seed, col_width=8):
    """A minimal xclbin: AIE_PARTITION, XML, IP_LAYOUT, MEM_TOPOLOGY, CONNECTIVITY."""
    pdi = (b"PDI-placeholder-%08d-" % seed) * 8
    part = bytearray(184)
    heap = bytearray()

    def put(b, align=8):
        while (184 + len(heap)) % align:
            heap.append(0)
        off = 184 + len(heap)
        heap.extend(b)
        return off

    s_empty = put(b"\0")
    s_name = put(b"DPU\0")
    o_cols = put(struct.pack("<H", 0))
    o_pdi = put(pdi, 16)
    o_ids = put(struct.pack("<Q", 0x901))
    o_pre = put(struct.pack("<Q", 0xC1))
    cdo = struct.pack("<IB3xQIIII", s_name, 1, 1, 1, o_ids, 1, o_pre) + bytes(64)
    o_cdo = put(cdo)
    uuid = zlib.crc32(pdi).to_bytes(4, "little") * 4
    o_rec = put(uuid + struct.pack("<IIII", len(pdi), o_pdi, 1, o_cdo) + bytes(64))
    struct.pack_into("<I", part, 4, s_empty)
    struct.pack_into("<I", part, 8, 2048)
    struct.pack_into("<QQ", part, 16, 23423, 12345)
    struct.pack_into("<H", part, 32, col_width)
    struct.pack_into("<II", part, 40, 1, o_cols)
    struct.pack_into("<II", part, 120, 1, o_rec)
    struct.pack_into("<I", part, 128, s_empty)
    part = bytes(part) + bytes(heap)
    args = [
        '<arg name="opcode" addressQualifier="0" id="0" size="0x8" offset="0x00"'
        ' hostOffset="0x0" hostSize="0x8" type="uint64_t"/>',
        '<arg name="instr" addressQualifier="1" id="1" size="0x8" offset="0x08"'
        ' hostOffset="0x0" hostSize="0x8" type="char *"/>',
        '<arg name="ninstr" addressQualifier="0" id="2" size="0x4" offset="0x10"'
        ' hostOffset="0x0" hostSize="0x4" type="uint32_t"/>',
    ]
    for i in range(nargs):
        args.append(
            '<arg name="bo%d" addressQualifier="1" id="%d" size="0x8" offset="0x%x"'
            ' hostOffset="0x0" hostSize="0x8" type="void*"/>' % (i, 3 + i, 0x14 + 8 * i)
        )
    xml = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<project><platform><device><core>'
        '<kernel name="MLIR_AIE" language="c" type="dpu">'
        '<extended-data subtype="1" functional="0" dpu_kernel_id="0x901"/>'
        + "".join(args)
        + '<instance name="MLIRAIE"/></kernel></core></device></platform></project>'
    ).encode() + b"\0"
    ip = struct.pack("<i4xIIQ64s", 1, 7, 0x09010001, 0xFFFFFFFFFFFFFFFF, b"MLIR_AIE:MLIRAIE")
    mem = struct.pack("<i4x", 2)
    for tag, kb in ((b"HOST", 0x10000), (b"SRAM", 0xC000)):
        mem += struct.pack("<BB6xQQ16s", 2, 1, kb, 0x4000000, tag)
    con = struct.pack("<i", 1 + nargs) + struct.pack("<iii", 1, 0, 1)
    for i in range(nargs):
        con += struct.pack("<iii", 3 + i, 0, 0)
    secs = [(32, b"AIE_PARTITION", part), (2, b"", xml), (8, b"", ip), (6, b"", mem), (7, b"", con)]
    head = bytearray(456)
    head[0:8] = b"xclbin2\0"
    struct.pack_into("<i", head, 8, -1)
    head[12:296] = b"\xff" * 284
    head[330], head[331] = 2, 25
    head[416:432] = uuid
    struct.pack_into("<I", head, 448, len(secs))
    off = 456 + 40 * len(secs)
    table, body = b"", b""
    for kind, name, data in secs:
        pad = -(off + len(body)) % 8
        body += bytes(pad)
        table += struct.pack("<I16s4xQQ", kind, name, off + len(body), len(data))
        body += data
    out = bytes(head) + table + body
    return out[:304] + struct.pack("<Q", len(out)) + out[312:]


GEMM, MHA, ROPE, ADDLN = 1, 2, 3, 4


def stream(kind, name, params, mode=0, n_work=1, n_drain=1):
    ops = []
    w32 = lambda addr, val: ops.append(struct.pack("<6I", 0, 0, addr, 0, val, 0x18))
    for col in range(8):
        for row in range(4):
            tile = (col << 25) | ((2 + row) << 20)
            if kind == GEMM:
                w32(tile | 0x400, n_work)
                w32(tile | 0x404, n_drain)
                w32(tile | 0x408, mode)
                w32(tile | 0x1F000, 0)
            elif kind == MHA:
                w32(tile | 0x400, params[1])  # key count
                w32(tile | 0x404, 0)  # window
    nm = name.encode()[:16].ljust(16, b"\0")
    pay = (
        struct.pack("<3I", 0x5455504E, 1, kind)
        + nm
        + struct.pack("<I", len(params))
        + struct.pack("<%dI" % len(params), *params)
    )
    ops.append(struct.pack("<4I", 1, 0, 0x1D000, 16 + len(pay)) + pay)
    body = b"".join(ops)
    return struct.pack("<4I", 0x06040100, 0x00000108, len(ops), 16 + len(body)) + body


def png(path, rgb):
    h, w, _ = rgb.shape
    raw = b"".join(b"\0" + rgb[y].tobytes() for y in range(h))
    ch = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
    with open(path, "wb") as f:
        f.write(
            b"\x89PNG\r\n\x1a\n"
            + ch(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0))
            + ch(b"IDAT", zlib.compress(raw))
            + ch(b"IEND", b"")
        )


def test_image(w, h):
    """byte k (k = flat index over [h, w, 3]) = (k * 2654435761 mod 2^32) >> 24"""
    k = np.arange(w * h * 3, dtype=np.uint64)
    return (((k * 2654435761) & 0xFFFFFFFF) >> 24).astype(np.uint8).reshape(h, w, 3)


def f32bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


class Bundle:
    def __init__(self, out, seed, drop=()):
        self.dir, self.rng, self.drop = out, np.random.default_rng(seed), set(drop)
        os.makedirs(os.path.join(out, "kernels"), exist_ok=True)
        os.makedirs(os.path.join(out, "cases"), exist_ok=True)
        self.man, self.idx = [], []
        self.bin = open(os.path.join(out, "tensors.bin"), "wb")
        self.gemms, self.nx = {}, 0

    def line(self, s):
        if s.split()[0] not in self.drop and " ".join(s.split()[:2]) not in self.drop:
            self.man.append(s)

    def param(self, k, v):
        if isinstance(v, (list, tuple)):
            v = ",".join(map(str, v))
        self.line("param %s %s" % (k, v))

    def tensor(self, name, arr, dtype=None, shape=None):
        if name in self.drop:
            return
        if dtype is None:
            dtype = {"float32": "f32", "uint16": "bf16", "uint8": "u8", "int32": "i32"}[
                str(arr.dtype)
            ]
        shape = shape or arr.shape
        off = self.bin.tell()
        self.bin.write(bytes(-off % 64))
        off = self.bin.tell()
        b = np.ascontiguousarray(arr)
        self.bin.write(b.data if b.size else b"")
        self.idx.append(
            "%s %s %s %d %d" % (name, dtype, ",".join(map(str, shape)) or "0", off, b.nbytes)
        )

    # random tensors -------------------------------------------------
    def rand(self, shape, std):
        return (self.rng.standard_normal(shape, dtype=np.float32) * np.float32(std)).astype(
            np.float32
        )

    def f(self, name, shape, std):
        self.tensor(name, self.rand(shape, std))

    def ln(self, name, d):
        self.tensor(name + ".w", (1 + self.rand(d, 0.1)).astype(np.float32))
        self.tensor(name + ".b", self.rand(d, 0.1))

    def lin(self, name, n_out, n_in, bf=False, gain=1.0, bias=None):
        w = self.rand((n_out, n_in), gain / np.sqrt(n_in))
        self.tensor(name + ".w", bf16(w) if bf else w)
        r = self.rand(n_out, 0.1)
        self.tensor(name + ".b", r if bias is None else np.array(bias, np.float32))

    def packed(self, name, key, B=None, bias=None, std=None):
        g = self.gemms[key]
        if g["bias"] and bias is None:
            bias = self.rand(g["N"], 0.1)
        if not g["bias"]:
            bias = None
        if B is None:
            std = std or 1 / np.sqrt(g["K"])
            if g["K"] * g["N"] > 1 << 20:
                p = pack_random(g["K"], g["N"], g, self.rng, std, bias)
            else:
                p = pack_b(self.rand((g["K"], g["N"]), std), g, bias)
        else:
            p = pack_b(B, g, bias)
        assert p.nbytes == g["b_bytes"], (name, p.nbytes, g)
        self.tensor(name, p)

    # kernels ----------------------------------------------------------
    def file(self, rel, data):
        with open(os.path.join(self.dir, rel), "wb") as f:
            f.write(data)

    def xcl(self, key, nargs):
        self.nx += 1
        self.file("kernels/%s.xclbin" % key, xclbin(nargs, self.nx))

    def finish(self):
        self.bin.close()
        self.file("tensors.txt", ("\n".join(self.idx) + "\n").encode())
        self.file("manifest.txt", ("\n".join(self.man) + "\n").encode())


def add_refs(b, a):
    """Reference tensors captured from a run of the public program on the same bundle."""
    if a.refs:
        z = np.load(a.refs)
        for n in z.files:
            if n == "manifest":
                for ln in str(z[n]).splitlines():
                    b.line(ln)
            else:
                b.tensor(n, z[n])


# SAM 3


def sam3_cfg(tiny):
    if not tiny:
        return dict(
            grid=72,
            window=24,
            vit_dim=1024,
            vit_heads=16,
            vit_layers=32,
            vit_ffn=4736,
            vit_ffn_pad=5120,
            vit_global=[7, 15, 23, 31],
            patch=14,
            d_model=256,
            d_heads=8,
            d_layers=6,
            d_ffn=2048,
            text_len=32,
            text_dim=1024,
            text_heads=16,
            text_layers=24,
            text_ffn=4096,
            queries=200,
            dec_layers=6,
            mid=512,
            trk_ch=[32, 64, 256],
            trk_up=64,
            vocab=49408,
            M=1792,
            M2=5376,
            Mh=5376,
            head_n=256,
            score=2048,
        )
    return dict(
        grid=8,
        window=4,
        vit_dim=128,
        vit_heads=2,
        vit_layers=3,
        vit_ffn=176,
        vit_ffn_pad=192,
        vit_global=[1],
        patch=14,
        d_model=64,
        d_heads=2,
        d_layers=2,
        d_ffn=128,
        text_len=32,
        text_dim=64,
        text_heads=4,
        text_layers=2,
        text_ffn=128,
        queries=20,
        dec_layers=2,
        mid=96,
        trk_ch=[8, 16, 64],
        trk_up=16,
        vocab=0,
        M=32,
        M2=48,
        Mh=256,
        head_n=32,
        score=96,
    )


def gpt2_bytes():
    bs = list(range(33, 127)) + list(range(0xA1, 0xAD)) + list(range(0xAE, 0x100))
    cs, n = bs[:], 0
    for b in range(256):
        if b not in bs:
            bs.append(b)
            cs.append(256 + n)
            n += 1
    return [chr(c) for c in cs]


def clip_files(b, path, vocab_size):
    """vocab.json / merges.txt: OpenAI's when the vocabulary file is given, else a toy set."""
    sym = gpt2_bytes()
    if path:
        merges = gzip.open(path, "rt", encoding="utf-8").read().split("\n")[1 : 49152 - 256 - 2 + 1]
    else:
        merges = [
            "c a",
            "ca t</w>",
            "d o",
            "do g</w>",
            "r e",
            "re d</w>",
            "p e",
            "r s",
            "pe rs",
            "o n</w>",
            "pers on</w>",
            "ca r</w>",
            "t h",
            "th e</w>",
            "' s</w>",
            "a n",
            "an d</w>",
            "e r</w>",
            "i n",
            "in g</w>",
            "l a",
            "la p",
            "t o",
            "to p</w>",
            "lap top</w>",
        ]
    toks = sym + [s + "</w>" for s in sym] + [m.replace(" ", "") for m in merges]
    toks += ["<|startoftext|>", "<|endoftext|>"]
    seen, vocab = set(), {}
    for t in toks:
        if t not in seen:
            seen.add(t)
            vocab[t] = len(vocab)
    bos, eos = vocab["<|startoftext|>"], vocab["<|endoftext|>"]
    if vocab_size and not path:  # full size: same ids for the two specials as the real model
        bos, eos = 49406, 49407
        vocab["<|startoftext|>"], vocab["<|endoftext|>"] = bos, eos
    b.file("vocab.json", json.dumps(vocab, ensure_ascii=True).encode())
    b.file("merges.txt", ("#version: 0.2\n" + "\n".join(merges) + "\n").encode())
    return bos, eos, max(len(vocab), vocab_size)


def sam3(a):
    c = sam3_cfg(a.tiny)
    b = Bundle(a.out, a.seed, a.drop)
    T, D, H = c["grid"] ** 2, c["vit_dim"], c["vit_heads"]
    d, nh, L = c["d_model"], c["d_heads"], c["text_len"]
    hd, pd = d // nh, 64 * nh
    dev = not a.host_vit
    res32 = dev and a.format == 2
    b.line("# synthetic bundle (make_bundle.py); the kernels are placeholders")
    b.line("version %d" % a.format)
    b.param("grid", c["grid"])
    b.param("window", c["window"])
    for k in ("vit_dim", "vit_heads", "vit_layers", "vit_ffn_pad", "vit_global", "patch"):
        b.param(k, c[k])
    b.param("image_size", c["grid"] * c["patch"])
    for k in (
        "d_model",
        "d_heads",
        "d_layers",
        "d_ffn",
        "text_len",
        "text_dim",
        "text_heads",
        "text_layers",
        "text_ffn",
    ):
        b.param(k, c[k])
    b.param("text_eps", "1e-05")
    b.param("vit_eps", "1e-06")
    b.param("queries", c["queries"])
    b.param("dec_layers", c["dec_layers"])
    splits = [4 * c["mid"], 4 * d, d]
    W = sum(splits)
    b.param("neck_splits", splits)
    b.param("mask_size", 4 * c["grid"])
    if dev:
        b.param("vit_device", 1)
    if res32:
        b.param("vit_res_f32", 1)
    bos, eos, vocab = clip_files(b, a.clip_vocab, c["vocab"])
    b.param("bos", bos)
    b.param("eos", eos)
    b.param("pad", eos)
    trk = not a.no_tracker
    if trk:
        b.param("tracker", 1)
        b.param("trk_heads", nh)
        b.param("trk_layers", 2)
        b.param("trk_mask_tokens", 4)
        b.param("trk_out_ch", c["trk_ch"])
        b.param("trk_stability_delta", 0.05)
        b.param("trk_stability_thresh", 0.98)
        for i in range(2):
            b.param("trk.%d.mlp.depth" % i, 2)
        for i in range(4):
            b.param("trk.hyper%d.depth" % i, 3)
        b.param("trk.iou_head.depth", 3)
        b.param("trk.obj_head.depth", 3)
    # kernels: key -> K N lda bias act M (tile_k, tile_n, ct_k)
    ke = 768 if not a.tiny else 640
    M, M2, Mh = c["M"], c["M2"], c["Mh"]
    big = (256, 64, 128) if not a.tiny else (32, 32, 32)
    sm = (32, 32, 32)
    t16 = (16, 16, 16) if a.tiny else (256, 64, 128)
    specs = [  # key, K, N, lda, bias, act, M, tiles, ctx
        ("v_embed", ke, D, ke, 0, 0, M, (128, 64, 128) if not a.tiny else (128, 32, 64), "g0"),
        ("v_qkv", D, 3 * D, D, 1, 0, M, big, "g1"),
        ("v_o", D, D, D, 1, 0, M2, big, "g1"),
        ("v_fc1", D, c["vit_ffn_pad"], D, 1, 5, M, big, "g2"),
        ("v_fc2", c["vit_ffn_pad"], D, c["vit_ffn_pad"], 0, 0, M, big, "g3"),
        ("n_in", D, W, D, 1, 0, M2, big, "g1"),
        ("n_up", c["mid"], 4 * d, c["mid"], 1, 0, M, big, "g4"),
        ("conv", 12 * d, 2 * d, 6 * d, 0, 0, M, big, "g5"),
        ("d_qkv", 2 * d, 3 * pd, 2 * d, 1, 0, M, t16, "g6"),
        ("d_o", pd, d, pd, 1, 0, M, t16, "g6"),
        ("d_s", d, nh * L, d, 1, 0, M, sm, "g7"),
        ("d_c", nh * L, d, nh * L, 1, 0, M2, sm, "g7"),
        ("d_fc1", d, c["d_ffn"], d, 1, 4, M, sm, "g8"),
        ("d_fc2", c["d_ffn"], d, c["d_ffn"], 0, 0, M, sm, "g9"),
        ("dec_kv", 2 * d, 2 * d * c["dec_layers"], 2 * d, 1, 0, M2, t16, "g6"),
        ("m_head", d, c["head_n"], d, 1, 0, Mh, sm, "g7"),
    ]
    for x in sorted({s[8] for s in specs}):
        b.xcl(x, 5)
        b.line("xclbin %s kernels/%s.xclbin MLIR_AIE" % (x, x))
    for key, K, N, lda, bias, act, m, (tk, tn, ck), ctx in specs:
        bb = N * (K + (ck if bias else 0)) * 9 // 8
        g = b.gemms[key] = dict(
            M=m, K=K, N=N, lda=lda, tile_k=tk, tile_n=tn, ct_k=ck, bias=bias, b_bytes=bb
        )
        b.file(
            "kernels/%s.insts.bin" % key,
            stream(GEMM, key, [m, K, N, lda, N, tk, tn, ck, bias, 1, 0], mode=act, n_work=N // tn),
        )
        b.line(
            "gemm %s ctx=%s insts=kernels/%s.insts.bin " % (key, ctx, key)
            + " ".join(
                "%s=%d" % (k, g[k])
                for k in ("M", "K", "N", "lda", "tile_k", "tile_n", "ct_k", "bias", "b_bytes")
            )
        )
    ws2, nwin = c["window"] ** 2, T // c["window"] ** 2
    sc = f32bits(0.125)

    def mha(key, heads, seq, tm, elems, prm):
        b.xcl(key, 5)
        b.file("kernels/%s.insts.bin" % key, stream(MHA, key, prm))
        b.line(
            "mha %s xclbin=kernels/%s.xclbin insts=kernels/%s.insts.bin name=MLIR_AIE"
            " heads=%d seq=%d d=64 token_major=%d elems=%d" % (key, key, key, heads, seq, tm, elems)
        )

    if dev:
        for key, nw, sq in (("mha_win", nwin, ws2), ("mha_glob", 1, T)):
            mha(
                key,
                nw * H if key == "mha_win" else H,
                sq,
                int(key == "mha_glob"),
                T * D,
                [nw, sq, H, 64, 0, 2 * D, D, 2 * D, 2 * D, 3 * D, 0, D, sc, 0, 0, 0],
            )
    else:
        mha(
            "mha_win", nwin * H, ws2, 0, T * D, [nwin * H, ws2, 1, 64] + [0, 64] * 4 + [sc, 0, 0, 0]
        )
        mha("mha_glob", H, T, 1, T * D, [1, T, H, 64] + [0, D] * 4 + [sc, 0, 0, 0])
    mha("mha_d", nh, T, 1, T * pd, [1, T, nh, 64] + [0, pd] * 4 + [sc, 0, 0, 0])
    if dev:
        for key, kind, prm in (
            ("rope", ROPE, [T, 2 * H, 64, 3 * D, 2 * D]),
            ("addln", ADDLN, [T, D, f32bits(1e-6), int(res32)]),
        ):
            b.xcl(key, 5)
            b.file("kernels/%s.insts.bin" % key, stream(kind, key, prm))
            b.line("op %s xclbin=kernels/%s.xclbin insts=kernels/%s.insts.bin" % (key, key, key))
    # ViT
    w, g = c["window"], c["grid"]
    j = np.arange(T)
    win, s = j // ws2, j % ws2
    wy, wx, sy, sx = win // (g // w), win % (g // w), s // w, s % w
    perm = ((w * wy + sy) * g + w * wx + sx).astype(np.int32)
    b.tensor("v.perm", perm)
    pos = b.rand((ws2, D), 0.3)
    b.tensor("v.pos", np.tile(pos, (nwin, 1)))
    b.ln("v.ln_pre", D)
    B = np.zeros((ke, D), np.float32)
    B[:588] = b.rand((588, D), 1 / np.sqrt(588))
    b.packed("v.embed", "v_embed", B)
    freq = 10000.0 ** (-4.0 * np.arange(16) / 64)

    def rope(x, y):
        return np.concatenate([x[:, None] * freq, y[:, None] * freq], 1)  # [T, 32]

    aw, ag = rope(sx.astype(float), sy.astype(float)), rope(
        (w * wx + sx) * (w / g), (w * wy + sy) * (w / g)
    )
    for nm, an in (("win", aw), ("glob", ag)):
        if dev:
            t = np.empty((T, 64), np.float32)
            t[:, 0::2] = np.cos(an)
            t[:, 1::2] = np.sin(an)
            b.tensor("v.rope_tab." + nm, bf16(t))
        else:
            b.tensor("v.rope.%s.cos" % nm, np.cos(an).astype(np.float32))
            b.tensor("v.rope.%s.sin" % nm, np.sin(an).astype(np.float32))
    F, FP = c["vit_ffn"], c["vit_ffn_pad"]
    for i in range(c["vit_layers"]):
        if a.tiny:
            B1 = b.rand((D, FP), 1 / np.sqrt(D))
            B1[:, F:] = 0
            B2 = b.rand((FP, D), 0.3 / np.sqrt(F))
            B2[F:] = 0
            bias1 = b.rand(FP, 0.1)
            bias1[F:] = 0
            bias1[FP - 1] = 4.0  # spare column: GELU(4) ~ 4 carries fc2's bias
            B2[FP - 1] = b.rand(D, 0.1) / 4
        else:
            B1 = B2 = bias1 = None
        b.packed("v.%d.qkv" % i, "v_qkv")
        b.packed("v.%d.o" % i, "v_o", std=0.3 / np.sqrt(D))
        b.packed("v.%d.fc1" % i, "v_fc1", B1, bias1)
        b.packed("v.%d.fc2" % i, "v_fc2", B2, std=0.3 / np.sqrt(FP))
        if not dev:
            b.ln("v.%d.ln1" % i, D)
            b.ln("v.%d.ln2" % i, D)
            b.f("v.%d.fc2.b" % i, D, 0.1)

    # neck, convolutions
    def conv(name, bias_name, oc_real=None):
        Wc = b.rand((d, d, 3, 3), 1 / np.sqrt(9 * d))  # o c dy dx
        bias = b.rand(d, 0.1)
        if oc_real is not None:
            Wc[oc_real:] = 0
            bias[oc_real:] = 0
        B = np.zeros((12 * d, 2 * d), np.float32)
        for jj in range(2):
            for dx in range(3):
                for dy in range(3):
                    r = (jj + dx) * 3 * d + dy * d
                    B[r : r + d, jj * d : (jj + 1) * d] = Wc[:, :, dy, dx].T
        b.packed(name, "conv", B)
        b.tensor(bias_name, bias)

    for p in ["n"] + (["tn"] if trk else []):
        b.packed(p + ".in", "n_in")
        b.packed(p + ".up", "n_up")
        for i in range(3):
            conv(
                "%s.conv%d" % (p, i),
                "%s.conv%d.b" % (p, i),
                c["trk_ch"][i] if p == "tn" and i < 2 else None,
            )
    # text
    td = c["text_dim"]
    b.tensor("t.tok_emb", bf16(b.rand((vocab, td), 0.5)))
    b.f("t.pos_emb", (L, td), 0.2)
    for i in range(c["text_layers"]):
        p = "t.%d." % i
        b.ln(p + "ln1", td)
        b.ln(p + "ln2", td)
        b.lin(p + "qkv", 3 * td, td, True)
        b.lin(p + "o", td, td, True, 0.3)
        b.lin(p + "fc1", c["text_ffn"], td, True)
        b.lin(p + "fc2", td, c["text_ffn"], True, 0.3)
    b.ln("t.final_ln", td)
    b.lin("t.proj", d, td)
    # DETR encoder
    py, px = np.divmod(np.arange(T), g)
    nf = d // 2
    dim = 10000.0 ** (2 * (np.arange(nf) // 2) / nf)

    def sine(v):
        an = ((v + 1) / (g + 1e-6) * 2 * np.pi)[:, None] / dim
        return np.where(np.arange(nf) % 2 == 0, np.sin(an), np.cos(an))

    b.tensor("d.pos", np.concatenate([sine(py), sine(px)], 1).astype(np.float32))
    for i in range(c["d_layers"]):
        p = "d.%d." % i
        for k in ("ln1", "ln2", "ln3"):
            b.ln(p + k, d)
        B = np.zeros((2 * d, 3 * pd), np.float32)
        bias = np.zeros(3 * pd, np.float32)
        for part in range(3):
            rows = slice(0, d) if part < 2 else slice(d, 2 * d)
            for h in range(nh):
                col = part * pd + h * 64
                k = np.sqrt(2.0) * 1.0 if part == 0 else 1.0
                B[rows, col : col + hd] = b.rand((d, hd), 1 / np.sqrt(d)) * k
                bias[col : col + hd] = b.rand(hd, 0.1) * k
        b.packed(p + "qkv", "d_qkv", B, bias)
        B = np.zeros((pd, d), np.float32)
        for h in range(nh):
            B[h * 64 : h * 64 + hd] = b.rand((hd, d), 0.5 / np.sqrt(d))
        b.packed(p + "o", "d_o", B)
        for k in "qkvo":
            b.lin(p + "ca." + k, d, d)
        b.packed(p + "fc1", "d_fc1")
        b.packed(p + "fc2", "d_fc2", std=0.5 / np.sqrt(c["d_ffn"]))
        b.f(p + "fc2.b", d, 0.1)
    # DETR decoder
    dl = c["dec_layers"]
    B = np.zeros((2 * d, 2 * d * dl), np.float32)
    for l in range(dl):
        B[:d, 2 * d * l : 2 * d * l + d] = b.rand((d, d), 1 / np.sqrt(d))
        B[d:, 2 * d * l + d : 2 * d * l + 2 * d] = b.rand((d, d), 1 / np.sqrt(d))
    b.packed("dec.kv", "dec_kv", B)
    Q = c["queries"]
    b.f("dec.reference_points", (Q, 4), 1.0)
    b.f("dec.query_embed", (Q, d), 1.0)
    b.f("dec.presence_token", (d,), 1.0)
    b.lin("dec.ref_point_head.1", d, 2 * d)
    b.lin("dec.ref_point_head.2", d, d)
    for ax in "xy":
        b.lin("dec.rpb_%s.1" % ax, d, 2)
        b.lin("dec.rpb_%s.2" % ax, nh, d)
    for l in range(dl):
        p = "dec.%d." % l
        for k in (
            "sa.q",
            "sa.k",
            "sa.v",
            "sa.o",
            "tca.q",
            "tca.k",
            "tca.v",
            "tca.o",
            "vca.q",
            "vca.o",
        ):
            b.lin(p + k, d, d)
        for k in ("sa_ln", "tca_ln", "vca_ln", "mlp_ln"):
            b.ln(p + k, d)
        b.lin(p + "fc1", c["d_ffn"], d)
        b.lin(p + "fc2", d, c["d_ffn"])
    b.ln("dec.out_ln", d)
    b.ln("dec.presence_ln", d)
    for h, o in (("dec.box_head", 4), ("dec.presence_head", 1)):
        b.lin(h + ".1", d, d)
        b.lin(h + ".2", d, d)
        b.lin(h + ".3", o, d, bias=[2.5] if o == 1 else None)
    b.lin("score.text_mlp.1", c["score"] if a.tiny else 2048, d)
    b.lin("score.text_mlp.2", d, c["score"] if a.tiny else 2048)
    b.ln("score.text_ln", d)
    b.lin("score.text_proj", d, d)
    b.lin("score.query_proj", d, d, gain=4.0)
    # mask decoder
    for k in "qkvo":
        b.lin("m.ca." + k, d, d)
    b.ln("m.ca_ln", d)
    for i in range(2):
        conv("m.conv%d" % i, "m.conv%d.b" % i)
        b.ln("m.gn%d" % i, d)
    for i in range(3):
        b.lin("m.embed.%d" % i, d, d)
    b.lin("m.inst", d, d)
    b.f("m.sem.w", (d,), 1 / np.sqrt(d))
    b.f("m.sem.b", (1,), 0.1)
    if trk:
        b.f("trk.pe_gauss", (2, d // 2), 1.0)
        b.f("trk.point_embed", (4, d), 0.5)
        b.f("trk.not_a_point", (d,), 0.5)
        b.f("trk.no_mask", (d,), 0.1)
        b.f("trk.tokens", (6, d), 0.5)
        b.f("trk.image_pe", (T, d), 0.5)
        for i in range(2):
            p = "trk.%d." % i
            for at in ("sa", "t2i", "i2t"):
                w_ = d if at == "sa" else d // 2
                for k in "qkv":
                    b.lin(p + at + "." + k, w_, d)
                b.lin(p + at + ".o", d, w_)
            for k in range(1, 5):
                b.ln(p + "ln%d" % k, d)
            b.lin(p + "mlp.0", 2 * d, d)
            b.lin(p + "mlp.1", d, 2 * d)
        for k in "qkv":
            b.lin("trk.final." + k, d // 2, d)
        b.lin("trk.final.o", d, d // 2)
        b.ln("trk.final_ln", d)
        b.f("trk.up1.w", (d, c["trk_up"], 2, 2), 1 / np.sqrt(d))
        b.f("trk.up1.b", (c["trk_up"],), 0.1)
        b.ln("trk.up_ln", c["trk_up"])
        b.f("trk.up2.w", (c["trk_up"], c["trk_ch"][0], 2, 2), 1 / np.sqrt(c["trk_up"]))
        b.f("trk.up2.b", (c["trk_ch"][0],), 0.1)
        for i in range(4):
            for jn, (o, n) in enumerate(((d, d), (d, d), (c["trk_ch"][0], d))):
                b.lin("trk.hyper%d.%d" % (i, jn), o, n)
        for nm, o_ in (("iou_head", 4), ("obj_head", 1)):
            for jn, o in enumerate((d, d, o_)):
                b.lin("trk.%s.%d" % (nm, jn), o, d)
    # self-check data that needs no reference model
    gs = b.gemms["d_s"]
    PB, pb = b.rand((gs["K"], gs["N"]), 1.0), b.rand(gs["N"], 1.0)
    b.tensor("pack_test.B", PB)
    b.tensor("pack_test.bias", pb)
    b.tensor("pack_test.packed", pack_b(PB, gs, pb))
    img = test_image(120, 90)
    png(os.path.join(a.out, "cases/synth.png"), img)
    b.line("ref_image cases/synth.png")
    b.line("ref_prompt cat")
    b.tensor("ref.rgb", img)
    add_refs(b, a)
    b.finish()


# EmbeddingGemma 2


def gemma(a):
    full = not a.tiny
    c = (
        dict(
            vD=768,
            vI=3072,
            vL=16,
            vH=12,
            vhd=64,
            D=512,
            I=2048,
            L=24,
            H=4,
            vrows=2560,
            trows=2048,
            mst=280,
            P=10240,
            vocab=262144,
            maxt=2048,
            M=256,
            out=768,
        )
        if full
        else dict(
            vD=192,
            vI=384,
            vL=2,
            vH=3,
            vhd=64,
            D=64,
            I=128,
            L=6,
            H=2,
            vrows=96,
            trows=64,
            mst=10,
            P=64,
            vocab=600,
            maxt=48,
            M=16,
            out=48,
        )
    )
    b = Bundle(a.out, a.seed, a.drop)
    types = ["g" if (i % 6) == 5 else "s" for i in range(c["L"])]
    hd = [(512 if t == "g" else 256) if full else (64 if t == "g" else 32) for t in types]
    kv = [1 if t == "g" else 2 for t in types]
    o_w = max(c["H"] * h for h in hd)
    b.line("version 1")
    for k, v in (
        ("v.D", c["vD"]),
        ("v.I", c["vI"]),
        ("v.layers", c["vL"]),
        ("v.heads", c["vH"]),
        ("v.hd", c["vhd"]),
        ("v.patch", 16 if full else 8),
        ("v.pool", 3),
        ("v.theta", 100.0),
        ("v.eps", "1e-06"),
        ("v.rows", c["vrows"]),
        ("D", c["D"]),
        ("I", c["I"]),
        ("layers", c["L"]),
        ("heads", c["H"]),
        ("eps", "1e-06"),
        ("hd", hd),
        ("kv_heads", kv),
        ("layer_types", types),
        ("theta_s", 10000.0),
        ("theta_g", 1000000.0),
        ("ple", c["D"]),
        ("out", c["out"]),
        ("window", 512 if full else 16),
        ("t.rows", c["trows"]),
        ("o_width", o_w),
        ("max_soft_tokens", c["mst"]),
        ("no_window", 1 << 30),
    ):
        b.param(k, v)
    if not a.image_only:
        b.param("max_text_tokens", c["maxt"])
        b.param("bos", 2)
        b.param("eos", 1)
    for k in ("vis", "txt", "mha"):
        b.xcl(k, 5)
        b.line("xclbin %s kernels/%s.xclbin MLIR_AIE" % (k, k))
    vD, D = c["vD"], c["D"]
    tk = (256, 64, 128) if full else (16, 16, 16)
    pl = 1 if not full else 2

    def gemm(key, ctx, K, N, lda, stride, nmax, act=0, pair=0):
        no = N // 2 if pair else N
        mk = lambda n: (n * c["M"] * lda, n * c["M"] * stride)
        b.gemms[key] = dict(
            M=c["M"],
            K=K,
            N=N,
            lda=lda,
            tile_k=tk[0],
            tile_n=tk[1],
            ct_k=tk[2],
            bias=0,
            b_bytes=N * K * 9 // 8,
        )
        for n in range(1, nmax + 1):
            fn = "kernels/%s%s.insts.bin" % (key, "" if n == 1 else "_x%d" % n)
            b.file(
                fn,
                stream(
                    GEMM,
                    key,
                    [n * c["M"], K, N, lda, stride, tk[0], tk[1], tk[2], 0, pl, pair],
                    mode=act,
                    n_work=N // tk[1],
                ),
            )
            ae, ce = mk(n)
            if n == 1:
                b.line(
                    "gemm %s ctx=%s insts=%s M=%d K=%d N=%d lda=%d c_stride=%d a_elems=%d"
                    " c_elems=%d" % (key, ctx, fn, c["M"], K, N, lda, stride, ae, ce)
                )
            else:
                b.line("gemm_chunks %s %d insts=%s a_elems=%d c_elems=%d" % (key, n, fn, ae, ce))

    nv, nt = c["vrows"] // c["M"], c["trows"] // c["M"]
    gemm("v_patch", "vis", vD, vD, vD, vD, nv)
    gemm("v_qkv", "vis", vD, 3 * vD, vD, 3 * vD, nv)
    gemm("v_o", "vis", vD, vD, vD, vD, nv)
    gemm("v_gu", "vis", vD, 2 * c["vI"], vD, c["vI"], nv, 0, 1)
    gemm("v_down", "vis", vD, vD, c["vI"], vD, nv)
    gemm("v_ev", "vis", vD, D, vD, D, min(nv, 2))
    gemm("t_ple", "txt", D, c["L"] * D, D, c["L"] * D, nt)
    widths = sorted({(c["H"] + 2 * k) * h for h, k in zip(hd, kv)})
    for w in widths:
        gemm("t_qkv%d" % w, "txt", D, w, D, w, nt)
    gemm("t_o", "txt", D, D, o_w, D, nt)
    gemm("t_gu", "txt", D, 2 * c["I"], D, c["I"], nt, 0, 1)
    gemm("t_down", "txt", D, D, c["I"], D, nt)
    gemm("t_pleg", "txt", D, D, D, D, nt, 5)
    gemm("t_plep", "txt", D, D, D, D, nt)
    bks = list(range(1280, 2561, 128)) if full else [48, 96]
    for r in bks:
        fn = "kernels/mha_%d.insts.bin" % r
        # 32 cores x (key count, window): value words 4 + 12 c + 4 and 4 + 12 c + 10
        kvw = [8 + 12 * i for i in range(32)]
        ww = [14 + 12 * i for i in range(32)]
        b.file(
            fn,
            stream(
                MHA,
                "mha_%d" % r,
                [
                    1,
                    r,
                    c["vH"],
                    64,
                    0,
                    3 * vD,
                    vD,
                    3 * vD,
                    2 * vD,
                    3 * vD,
                    0,
                    vD,
                    f32bits(1.0),
                    1,
                    kvw[0],
                    ww[0],
                ],
            ),
        )
        b.line(
            "mha %d ctx=mha insts=%s q_elems=%d k_elems=%d v_elems=%d o_elems=%d"
            " kv_words=%s win_words=%s"
            % (
                r,
                fn,
                r * 3 * vD,
                r * 3 * vD,
                r * 3 * vD,
                r * vD,
                ",".join(map(str, kvw)),
                ",".join(map(str, ww)),
            )
        )

    def packed(name, key, std=None):
        g = b.gemms[key]
        std = std or 1 / np.sqrt(g["K"])
        p = (
            pack_random(g["K"], g["N"], g, b.rng, std)
            if g["K"] * g["N"] > 1 << 18
            else pack_b(b.rand((g["K"], g["N"]), std), g)
        )
        if pl == 2:
            q = p.reshape(-1, 9).copy()
            q[:, 0] -= 8
            q[:, 1:] = np.roll(q[:, 1:], 1, 1)
            p = np.concatenate([p, q.reshape(-1)])
        b.tensor(name, p)

    def norm(name, n):
        b.tensor(name, (1 + b.rand(n, 0.1)).astype(np.float32))

    packed("v.patch", "v_patch")
    packed("v.ev", "v_ev")
    b.tensor("v.pos", bf16(b.rand((2, c["P"], vD), 0.2)))
    for i in range(c["vL"]):
        p = "v%d." % i
        packed(p + "qkv", "v_qkv")
        packed(p + "o", "v_o")
        packed(p + "gu", "v_gu")
        for s in range(c["vI"] // vD):
            packed(p + "down%d" % s, "v_down")
        norm(p + "q_norm", 64)
        norm(p + "k_norm", 64)
        norm(p + "post_attn", vD)
        norm(p + "post_ff", vD)
    packed("t.ple", "t_ple")
    norm("t.ple_norm", D)
    norm("t.norm", D)
    b.f("t.tok", (4, D), 1.0)
    b.f("t.proj", (c["out"], D), 1 / np.sqrt(D))
    b.tensor("t.layer_scalar", (1 - 0.05 * (np.arange(c["L"]) % 3)).astype(np.float32))
    for i in range(c["L"]):
        p = "t%d." % i
        packed(p + "qkv", "t_qkv%d" % ((c["H"] + 2 * kv[i]) * hd[i]))
        for s in range(c["H"] * hd[i] // D):
            packed(p + "o%d" % s, "t_o")
        packed(p + "gu", "t_gu")
        for s in range(c["I"] // D):
            packed(p + "down%d" % s, "t_down")
        packed(p + "pleg", "t_pleg")
        packed(p + "plep", "t_plep")
        norm(p + "q_norm", hd[i])
        norm(p + "k_norm", hd[i])
        for k in ("post_attn", "post_ff", "post_ple"):
            norm(p + k, D)
    if not a.image_only:
        b.tensor("t.embed", bf16(b.rand((c["vocab"], D), 0.1)))
        toks = ["<pad>", "<eos>", "<bos>", "<unk>"] + ["<0x%02X>" % i for i in range(256)]
        toks += [chr(i) for i in range(33, 127)] + ["\u2581", "\n", "\t", "\u00e9", "\u4e2d"]
        first = {t: i for i, t in enumerate(toks)}
        merges = []

        def mg(x, y):
            z = x + y
            if z not in first:
                first[z] = len(toks)
                toks.append(z)
            merges.append((first[x], first[y], first[z]))

        for x, y in [
            ("\u2581", "t"),
            ("\u2581t", "h"),
            ("\u2581th", "e"),
            ("a", "a"),
            ("aa", "a"),
            ("e", "r"),
            ("\u2581", "\u2581"),
            ("\n", "\n"),
            ("i", "n"),
            ("in", "g"),
            ("c", "a"),
            ("ca", "t"),
            ("\u2581", "cat"),
            ("o", "n"),
            ("<0xF0>", "<0x9F>"),
        ]:
            mg(x, y)
        added = [
            "<bos>",
            "<eos>",
            "<mask>",
            "<|image|>",
            "<|image>",
            "<image|>",
            "[multimodal]",
            "<mas",
        ]
        for t in added:
            if t not in first:
                first[t] = len(toks)
                toks.append(t)
        while len(toks) < c["vocab"]:
            toks.append("<unused%d>" % len(toks))
        enc = [t.encode() for t in toks]
        off = np.concatenate([[0], np.cumsum([len(e) for e in enc])]).astype(np.int32)
        b.tensor("tok.vocab", np.frombuffer(b"".join(enc), np.uint8))
        b.tensor("tok.vocab_off", off)
        b.tensor("tok.merges", np.array(merges, np.int32))
        for t in added:
            b.line("added %d %s" % (first[t], t.encode().hex()))
        for n, t in (
            ("SearchQuery", "task: search result | query: "),
            ("Document", "title: none | text: "),
            ("Empty", ""),
        ):
            b.line("prompt %s %s" % (n, t.encode().hex() or "-"))
    add_refs(b, a)
    b.finish()


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("model", choices=["sam3", "gemma"])
    p.add_argument("out")
    p.add_argument("--tiny", action="store_true")
    p.add_argument("--full", action="store_true")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--format", type=int, default=2)
    p.add_argument("--host-vit", action="store_true")
    p.add_argument("--no-tracker", action="store_true")
    p.add_argument("--image-only", action="store_true")
    p.add_argument("--clip-vocab")
    p.add_argument(
        "--drop",
        nargs="*",
        default=[],
        help="leave out tensors (name) or manifest lines (tag, or 'tag field0')",
    )
    p.add_argument(
        "--refs",
        help="an .npz of reference tensors to append, so that `check` can run"
        " (refs_sam3_tiny.npz, refs_gemma_tiny.npz: seed 1)",
    )
    a = p.parse_args()
    if a.tiny == a.full:
        p.error("give --tiny or --full")
    os.makedirs(a.out, exist_ok=True)
    (sam3 if a.model == "sam3" else gemma)(a)
    n = sum(os.path.getsize(os.path.join(r, f)) for r, _, fs in os.walk(a.out) for f in fs)
    print("%s: %.1f MB" % (a.out, n / 1e6))


if __name__ == "__main__":
    main()
