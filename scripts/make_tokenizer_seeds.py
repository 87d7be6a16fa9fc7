#!/usr/bin/env python3
"""Write the seeds of the tokenizer fuzzer: one for each kind of vocabulary and text.

Usage: scripts/make_tokenizer_seeds.py [fuzz/seeds/tokenizer]

The format stands in fuzz/fuzz_tokenizer.c. The same bytes come out at every run.
"""
import pathlib
import sys

NORMAL, UNKNOWN, CONTROL, USER = 1, 2, 3, 4
SPM, PREFIX, BYTES = 0x01, 0x10, 0x20
PRE = {None: 0, "gpt-2": 1, "smollm": 2, "llama-bpe": 3, "qwen2": 4, "default": 5}


def seed(flags, tokens, merges, text):
    """tokens: (text, type, score); merges: "left right"."""
    out = bytes([flags, len(tokens)])
    for name, kind, score in tokens:
        raw = name.encode()
        out += bytes([len(raw) << 3 | kind, score & 0xff]) + raw
    out += bytes([len(merges)])
    for merge in merges:
        raw = merge.encode()
        out += bytes([len(raw)]) + raw
    return out + text


def words(*names):
    return [(name, NORMAL, -i) for i, name in enumerate(names)]


MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġw o", "1 2"]
PIECES = words("he", "ll", "hell", "hello", "Ġw", "Ġwo", "12") + [("<|end|>", CONTROL, 0)]
TEXT = "hello wo hello  12345\n\n it's <|end|> \u00e9\u00e4\u6f22\U0001f600".encode()

SEEDS = {"empty": b"", "no_tokens": seed(0, [], [], TEXT)}
for pre, number in PRE.items():
    SEEDS[f"bpe_{pre or 'none'}"] = seed(BYTES | number << 1, PIECES, MERGES, TEXT)
SEEDS |= {
    "bpe_no_bytes": seed(PRE["gpt-2"] << 1, words("h", "e", "he"), ["h e"], b"hehe x"),
    "bpe_bad_merges": seed(BYTES | 2, PIECES, ["h", "h  e", " he", "x y", "h e"], TEXT),
    "bpe_twice": seed(BYTES | 2, PIECES + PIECES, MERGES + MERGES, TEXT),
    "bpe_not_utf8": seed(BYTES | 4, PIECES, MERGES, b"\xff\xc3hello\xe6\xbc wo\xf0\x9f"),
    "bpe_blanks": seed(BYTES | 4, PIECES, MERGES, b" " * 200 + b"\t\r\n" * 20 + b"x"),
    "bpe_digits": seed(BYTES | 6, PIECES, MERGES, b"1" * 100),
    "spm": seed(SPM | BYTES | PREFIX, words("▁", "he", "llo", "hello", "▁hello"), [], TEXT),
    "spm_no_prefix": seed(SPM | BYTES, words("▁", "▁▁", "h", "he"), [], b"  he he"),
    "spm_unknown": seed(SPM | 0x40, [("<unk>", UNKNOWN, 0)] + words("h", "▁"), [], TEXT),
    "spm_user": seed(SPM | BYTES | PREFIX, [("\n\n", USER, 0), ("<turn>", CONTROL, 0)]
                     + words("▁", "a", "aa", "aaaa"), [], b"aaaaaaa\n\n<turn>a"),
}


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "fuzz/seeds/tokenizer")
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
