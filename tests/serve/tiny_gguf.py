"""A whole model of 400 KB for tests of the server: two layers with random weights, a token
for each byte, a chat template. The same call writes the same file."""
import array
import random
import struct

WIDTH, HEADS, KV_HEADS, FEED_FORWARD, LAYERS, CONTEXT = 64, 4, 2, 96, 2, 2048
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]  # ids 0, 1, 2; byte b is 3 + b
END, START, STOP = 0, 1, 2
VOCAB = len(CONTROL) + 256
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + "
            "'<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
            "{{ '<|im_start|>assistant\\n' }}{% endif %}")


def byte_id(b):
    return len(CONTROL) + b


def byte_names():
    """GPT-2's way to write a byte as a character."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    names = {b: chr(b) for b in plain}
    names.update({b: chr(256 + i) for i, b in enumerate(others)})
    return [names[b] for b in range(256)]


def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, packed):
    return text(name) + struct.pack("<I", kind) + packed


def u32(name, value):
    return key(name, 4, struct.pack("<I", value))


def string(name, value):
    return key(name, 8, text(value))


def strings(name, values):
    return key(name, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values)))


def i32s(name, values):
    return key(name, 9, struct.pack("<IQ", 5, len(values)) +
               struct.pack(f"<{len(values)}i", *values))


def keys():
    return [
        string("general.architecture", "llama"),
        u32("llama.block_count", LAYERS),
        u32("llama.context_length", CONTEXT),
        u32("llama.embedding_length", WIDTH),
        u32("llama.feed_forward_length", FEED_FORWARD),
        u32("llama.attention.head_count", HEADS),
        u32("llama.attention.head_count_kv", KV_HEADS),
        key("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
        string("tokenizer.ggml.model", "gpt2"),
        string("tokenizer.ggml.pre", "gpt-2"),
        strings("tokenizer.ggml.tokens", CONTROL + byte_names()),
        i32s("tokenizer.ggml.token_type", [3] * len(CONTROL) + [1] * 256),
        strings("tokenizer.ggml.merges", []),
        u32("tokenizer.ggml.bos_token_id", START),
        u32("tokenizer.ggml.eos_token_id", STOP),
        string("tokenizer.chat_template", TEMPLATE),
    ]


def tensors():
    kv = WIDTH // HEADS * KV_HEADS
    yield "token_embd.weight", (WIDTH, VOCAB)
    for i in range(LAYERS):
        yield f"blk.{i}.attn_norm.weight", (WIDTH,)
        yield f"blk.{i}.attn_q.weight", (WIDTH, WIDTH)
        yield f"blk.{i}.attn_k.weight", (WIDTH, kv)
        yield f"blk.{i}.attn_v.weight", (WIDTH, kv)
        yield f"blk.{i}.attn_output.weight", (WIDTH, WIDTH)
        yield f"blk.{i}.ffn_norm.weight", (WIDTH,)
        yield f"blk.{i}.ffn_gate.weight", (WIDTH, FEED_FORWARD)
        yield f"blk.{i}.ffn_up.weight", (WIDTH, FEED_FORWARD)
        yield f"blk.{i}.ffn_down.weight", (FEED_FORWARD, WIDTH)
    yield "output_norm.weight", (WIDTH,)


def write(path):
    rng = random.Random(20)
    infos, data = [], bytearray()
    for name, dims in tensors():
        infos.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0,
                                              len(data)))
        n = dims[0] * (dims[1] if len(dims) > 1 else 1)
        scale = 1.7 / dims[0] ** 0.5 if len(dims) > 1 else 0.0
        values = array.array("f", (rng.uniform(-scale, scale) if scale else 1.0
                                   for _ in range(n)))
        data += values.tobytes()
        data += bytes(-len(data) % 32)
    entries = keys()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(entries)) + b"".join(entries)
    head += b"".join(infos)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32) + data)
    return path
