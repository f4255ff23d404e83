# SPDX-License-Identifier: Apache-2.0
# What the tests of the tool share. The first argument of a test is the tool, the others are models.
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

TOOL = os.path.abspath(sys.argv[1])


def run(*args, **more):
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([TOOL, *args], stderr=subprocess.PIPE, timeout=300, **more)


def npy(path):
    """Type, shape and data of a NumPy file."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x93NUMPY\x01\x00"
    (length,) = struct.unpack("<H", data[8:10])
    assert (10 + length) % 64 == 0
    head = eval(data[10 : 10 + length], {"__builtins__": {}})
    size = 8 if head["descr"] == "<i8" else 4
    for dim in head["shape"]:
        size *= dim
    assert len(data) == 10 + length + size and not head["fortran_order"]
    return head["descr"], head["shape"], data[10 + length :]


def write_png(path, width, height):
    """A grey picture that neither compresses to nothing nor takes long to make."""
    row = bytes((x * x >> 7 ^ x) & 255 for x in range(width))
    rows = b"".join(b"\0" + row[y % 97 :] + row[: y % 97] for y in range(height))

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)))
        file.write(chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


class ToolTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def one_error(self, done, status):
        """The only line on standard error: WHAT: WHERE: WHY; WHAT TO DO."""
        self.assertEqual(done.returncode, status, (done.args, done.stderr[:2000]))
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        self.assertEqual(len(lines), 1, (done.args, lines))
        self.assertRegex(lines[0], r"^npuseg-cli: error: [^:]+: .+: .+; .+$")
        return lines[0]

    def fails(self, status, *args):
        return self.one_error(run(*args), status)
