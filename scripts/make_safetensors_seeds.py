#!/usr/bin/env python3
"""Writes the seeds of fuzz/fuzz_safetensors.c: python3 scripts/make_safetensors_seeds.py"""
import pathlib
import struct

SEEDS = {
    "empty": (b"{}", 0),
    "scalar": (b'{"t":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}', 4),
    "metadata": (b'{"__metadata__":{"k":"v"},"t":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}', 2),
    "two": (b'{"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]},'
            b'"a":{"dtype":"F64","shape":[1,1],"data_offsets":[0,8]}}', 11),
    "zero_size": (b'{"t":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]}}', 0),
    "hole": (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
             b'"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}', 12),
    "overflow": (b'{"t":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}', 0),
    "unknown": (b'{"t":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}', 4),
    "spaces": (b'  {"t":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}   ', 8),
}

folder = pathlib.Path(__file__).parent.parent / "fuzz/seeds/safetensors"
folder.mkdir(parents=True, exist_ok=True)
for name, (header, n) in SEEDS.items():
    (folder / name).write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(1, n + 1)))
