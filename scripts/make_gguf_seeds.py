#!/usr/bin/env python3
"""Write the seeds of the GGUF fuzzer: small files that between them have some of everything.

Usage: scripts/make_gguf_seeds.py [fuzz/seeds/gguf]

The same bytes come out at every run; rerun it after a change of what a seed should reach.
"""
import pathlib
import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B",
         U64: "Q", I64: "q", F64: "d"}


def string(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind, v):
    return string(v) if kind == STRING else struct.pack("<" + FORMS[kind], v)


def key(name, kind, v):
    return string(name) + struct.pack("<I", kind) + value(kind, v)


def array(name, kind, values):
    head = string(name) + struct.pack("<IIQ", ARRAY, kind, len(values))
    return head + b"".join(value(kind, v) for v in values)


def tensor(name, dims, kind, offset):
    return (string(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
            + struct.pack("<IQ", kind, offset))


def gguf(keys, tensors=(), data=0, version=3, alignment=32):
    raw = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    raw += b"".join(keys) + b"".join(tensors)
    if tensors:
        raw += bytes(-len(raw) % alignment) + bytes(i % 251 for i in range(data))
    return raw


SEEDS = {
    "empty": gguf([]),
    "version2": gguf([key("general.architecture", STRING, "llama")], version=2),
    "scalars": gguf([
        key("u8", U8, 1), key("i8", I8, -1), key("u16", U16, 2), key("i16", I16, -2),
        key("u32", U32, 3), key("i32", I32, -3), key("f32", F32, 0.5), key("no", BOOL, 0),
        key("yes", BOOL, 1), key("u64", U64, 2**63), key("i64", I64, -2**63),
        key("f64", F64, 1e300), key("text", STRING, "a\nb\0c"), key("bad", STRING, b"\xff\x1b"),
    ]),
    "arrays": gguf([
        array("u8", U8, [1, 2, 3]), array("i16", I16, [-1, 2]), array("i32", I32, [1, 2, 3]),
        array("f64", F64, [0.5]), array("bool", BOOL, [0, 1, 1]), array("u64", U64, []),
        array("words", STRING, ["", "a", "bcd"]), array("f32", F32, [1.0] * 9),
    ]),
    "vocabulary": gguf([
        key("general.architecture", STRING, "llama"), key("llama.block_count", U32, 2),
        key("tokenizer.ggml.model", STRING, "gpt2"),
        array("tokenizer.ggml.tokens", STRING, ["<s>", "a", "b", "ab"]),
        array("tokenizer.ggml.token_type", I32, [3, 1, 1, 1]),
        array("tokenizer.ggml.merges", STRING, ["a b"]),
        key("tokenizer.ggml.bos_token_id", U32, 0),
        key("tokenizer.chat_template", STRING, "{% for m in messages %}{{ m }}{% endfor %}"),
    ]),
    "tensors": gguf(
        [key("general.alignment", U32, 64)],
        [tensor("a", [3], 0, 0), tensor("b", [64, 2], 3, 64), tensor("c", [256], 14, 192),
         tensor("d", [2, 2, 2, 2], 30, 448), tensor("odd", [5], 250, 512)],
        data=520, alignment=64),
    "types": gguf(
        [], [tensor(f"t{kind}", [256], kind, 1024 * i)
             for i, kind in enumerate([1, 2, 6, 7, 8, 9, 10, 20, 24, 39])], data=9 * 1024 + 136),
    "overlap": gguf([], [tensor("a", [64], 0, 0), tensor("b", [64], 0, 128)], data=512),
    "twice": gguf([key("k", U32, 1), key("k", U32, 2)]),
    "nested": gguf([string("k") + struct.pack("<IIQ", ARRAY, ARRAY, 1)
                    + struct.pack("<IQ", U8, 1) + b"\0"]),
    "wrapped": gguf([string("k") + struct.pack("<IIQ", ARRAY, U64, 2**61 + 1) + bytes(16)]),
    "swapped": gguf([], version=0x03000000),
}


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "fuzz/seeds/gguf"
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in SEEDS.items():
        (folder / f"{name}.gguf").write_bytes(raw)


if __name__ == "__main__":
    main()
