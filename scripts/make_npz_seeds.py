#!/usr/bin/env python3
"""Writes the seeds of fuzz/fuzz_npz.c, which tests/format/test_npz.c reads too:

    pip install numpy
    python3 scripts/make_npz_seeds.py

Made with NumPy 2.4.
"""
import io
import pathlib
import struct
import zipfile

import numpy

folder = pathlib.Path(__file__).parent.parent / "fuzz/seeds/npz"
folder.mkdir(parents=True, exist_ok=True)


def archive(**arrays):
    f = io.BytesIO()
    numpy.savez(f, **arrays)
    return bytearray(f.getvalue())


def put(name, data):
    (folder / name).write_bytes(bytes(data))


def npy(x):
    f = io.BytesIO()
    numpy.save(f, x)
    return f.getvalue()


def members(items, comment=b"", kind=zipfile.ZIP_DEFLATED):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", kind) as z:
        z.comment = comment
        for name, data in items:
            z.writestr(zipfile.ZipInfo(name), data, kind)
    return bytearray(f.getvalue())


def entry(data, i=0):
    """Where entry i of the directory begins."""
    at = -1
    for _ in range(i + 1):
        at = data.index(b"PK\1\2", at + 1)
    return at


ramp = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
put("stored", archive(ramp=ramp, turned=numpy.asfortranarray(ramp), flag=numpy.array([True])))
f = io.BytesIO()
numpy.savez_compressed(f, ramp=ramp, zeros=numpy.zeros((40, 30)), scalar=numpy.int64(-7))
put("compressed", f.getvalue())
put("empty", members([]))
put("comment", members([("a.npy", npy(ramp))], b"PK\5\6 is no end; this is a comment"))
put("other_members", members([("a.npy", npy(ramp)), ("notes.txt", b"text"), (".npy", b"")]))
two = members([("a.npy", npy(ramp)), ("b.npy", npy(ramp))], kind=zipfile.ZIP_STORED)
put("two", two)

bad = bytearray(two)
at = entry(bad, 1)
bad[at + 42 : at + 46] = bad[entry(bad) + 42 : entry(bad) + 46]
put("shared_bytes", bad)
bad = bytearray(two)
bad[entry(bad, 1) + 46] = ord("a")
put("same_name", bad)
bad = members([("a.npy", npy(ramp))])
bad[entry(bad) + 24 : entry(bad) + 28] = struct.pack("<I", 0x7FFFFFFF)
put("claims_more", bad)
bad = members([("a.npy", npy(ramp))])
bad[entry(bad) + 24 : entry(bad) + 28] = struct.pack("<I", 140)
put("holds_more", bad)
bad = bytearray(two)
bad[entry(bad) + 16] ^= 1
put("wrong_sum", bad)
bad = bytearray(two)
bad[entry(bad) + 8] |= 1
put("encrypted", bad)
put("bomb", members([("a.npy", npy(numpy.zeros(1 << 20, dtype=numpy.uint8)))]))
put("cut", two[: len(two) // 2])
