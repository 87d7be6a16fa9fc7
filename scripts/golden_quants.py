#!/usr/bin/env python3
"""Golden vectors of the quantised block formats: tests/kernel/golden_quants.h.

The bytes of the blocks are random (seeded), with scales of ordinary size and one subnormal
scale a type; the values are what the Python package `gguf` decodes from them, as the bits of
float32. Run from the repository's root:

    pip install gguf numpy
    python3 scripts/golden_quants.py > tests/kernel/golden_quants.h
"""
import numpy
from gguf import GGMLQuantizationType, quants

# name, bytes a block, elements a block, offsets of the f16 fields, rows, blocks a row
TYPES = [
    ("Q4_0", 18, 32, (0,), 3, 2),
    ("Q4_1", 20, 32, (0, 2), 3, 2),
    ("Q5_0", 22, 32, (0,), 3, 2),
    ("Q8_0", 34, 32, (0,), 3, 2),
    ("Q4_K", 144, 256, (0, 2), 2, 1),
    ("Q6_K", 210, 256, (208,), 2, 1),
]


def random_blocks(rng, n, size, halves):
    blocks = rng.integers(0, 256, (n, size), dtype=numpy.uint8)
    for at in halves:
        scales = (rng.random(n) * 0.1 + 0.001).astype(numpy.float16)
        scales[n - 1] = numpy.float16(3e-6)
        blocks[:, at : at + 2] = scales.view(numpy.uint8).reshape(n, 2)
    return blocks


def print_array(declaration, items, per_line):
    print(f"static const {declaration} = {{")
    for i in range(0, len(items), per_line):
        print("    " + ", ".join(items[i : i + per_line]) + ",")
    print("};\n")


def main():
    rng = numpy.random.default_rng(20240501)
    print("/* Blocks of the quantised types and their values as float32 bits, rows in order.")
    print(" * Made by scripts/golden_quants.py; not to be edited. */")
    print("#ifndef INGOT_TESTS_KERNEL_GOLDEN_QUANTS_H")
    print("#define INGOT_TESTS_KERNEL_GOLDEN_QUANTS_H\n")
    print("#include <stdint.h>\n")
    print("/* clang-format off */")
    for name, size, elements, halves, rows, per_row in TYPES:
        n = rows * per_row
        blocks = random_blocks(rng, n, size, halves)
        values = quants.dequantize(blocks, GGMLQuantizationType[name])
        bits = values.astype(numpy.float32).reshape(-1).view(numpy.uint32)
        print(f"enum {{ GOLDEN_{name.upper()}_ROWS = {rows}, GOLDEN_{name.upper()}_K = {per_row * elements} }};")
        print_array(f"uint8_t golden_{name.lower()}_blocks[{n * size}]",
                    [f"{b}" for b in blocks.reshape(-1)], 22)
        print_array(f"uint32_t golden_{name.lower()}_values[{len(bits)}]",
                    [f"0x{b:08x}" for b in bits], 8)
    print("/* clang-format on */\n")
    print("#endif")


main()
