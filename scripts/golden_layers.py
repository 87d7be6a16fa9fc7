#!/usr/bin/env python3
"""Golden vectors of layers: tests/nn/layers.safetensors, of PyTorch's modules.

For a case NAME the file holds the parameters under "NAME.w." and their names in the module's
state dict, "NAME.x" (and more inputs), the output "NAME.y", the cotangent "NAME.dy", and
gradients as "NAME.d." with the parameters' names and "NAME.dx". Run from the root:

    pip install torch
    python3 scripts/golden_layers.py

Made with PyTorch 2.15.0 on a CPU.
"""
import json
import struct

import torch
from torch import nn

tensors = {}


def put(name, x):
    tensors[name] = x.detach().contiguous()


def case(name, module, inputs, run=None):
    """The first of the inputs gets its gradient."""
    run = run or (lambda m, *x: m(*x))
    inputs = list(inputs)
    if inputs[0].is_floating_point():
        inputs[0].requires_grad_(True)
    for key, w in module.state_dict().items():
        if not key.endswith("num_batches_tracked"):
            put(f"{name}.w.{key}", w.clone())
    for label, x in zip(("x", "x2", "x3"), inputs):
        put(f"{name}.{label}", x)
    y = run(module, *inputs)
    dy = torch.sin(0.7 * torch.arange(y.numel(), dtype=torch.float32)).reshape(y.shape)
    y.backward(dy)
    put(f"{name}.y", y)
    put(f"{name}.dy", dy)
    if inputs[0].is_floating_point():
        put(f"{name}.dx", inputs[0].grad)
    for key, w in module.named_parameters():
        put(f"{name}.d.{key}", w.grad)


def shaken(module):
    """Parameters that start as zeros and ones get values of their own."""
    with torch.no_grad():
        for key, w in module.state_dict().items():
            if w.is_floating_point():
                w.add_(0.1 * torch.rand(w.shape))
    return module


def attention(m, x, memory=None, padding=None, causal=False):
    memory = x if memory is None else memory
    t, s = x.shape[1], memory.shape[1]
    mask = torch.triu(torch.ones(t, s, dtype=torch.bool), 1) if causal else None
    return m(x, memory, memory, key_padding_mask=padding, attn_mask=mask,
             need_weights=False)[0]


def recurrent(m, x, lengths=None):
    if lengths is None:
        return m(x)[0]
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True,
                                               enforce_sorted=False)
    return nn.utils.rnn.pad_packed_sequence(m(packed)[0], batch_first=True,
                                            total_length=x.shape[1])[0]


def main():
    torch.manual_seed(5)
    rand = torch.randn
    case("linear", shaken(nn.Linear(5, 3)), [rand(2, 4, 5)])
    case("embedding", nn.Embedding(7, 4), [torch.tensor([[1, 6, 1], [0, 3, 6]])])
    case("layer_norm", shaken(nn.LayerNorm(6)), [rand(3, 6)])
    case("rms_norm", shaken(nn.RMSNorm(6, eps=1e-5)), [rand(3, 6)])
    case("group_norm", shaken(nn.GroupNorm(2, 6)), [rand(2, 6, 3, 2)])
    case("batch_norm_train", shaken(nn.BatchNorm2d(3)), [rand(2, 3, 3, 2)])
    case("batch_norm_eval", shaken(nn.BatchNorm1d(3)).eval(), [rand(4, 3)])
    case("conv1d", shaken(nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2)), [rand(2, 4, 7)])
    case("conv2d", shaken(nn.Conv2d(3, 4, (3, 2), padding=(1, 0), dilation=(1, 2))),
         [rand(2, 3, 5, 6)])
    case("conv_transpose1d",
         shaken(nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)),
         [rand(2, 4, 5)])
    case("conv_transpose2d", shaken(nn.ConvTranspose2d(3, 2, (3, 2), stride=(2, 1), bias=False)),
         [rand(2, 3, 4, 3)])
    lengths = torch.tensor([5, 2, 4])
    case("rnn", nn.RNN(3, 4, batch_first=True), [rand(3, 5, 3)], recurrent)
    case("lstm", nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True),
         [rand(3, 5, 3), lengths], recurrent)
    case("gru", nn.GRU(3, 4, num_layers=2, bias=False, batch_first=True),
         [rand(3, 5, 3), lengths], recurrent)
    case("attention", shaken(nn.MultiheadAttention(6, 3, batch_first=True)), [rand(2, 4, 6)],
         lambda m, x: attention(m, x, causal=True))
    padding = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], dtype=torch.bool)
    case("attention_cross",
         shaken(nn.MultiheadAttention(6, 2, batch_first=True, kdim=5, vdim=5)),
         [rand(2, 4, 6), rand(2, 5, 5)], lambda m, x, y: attention(m, x, y, padding))
    case("attention_memory", nn.MultiheadAttention(6, 2, bias=False, batch_first=True),
         [rand(2, 3, 6), rand(2, 5, 6)], lambda m, x, y: attention(m, x, y, padding))

    kinds = {torch.float32: "F32", torch.int64: "I64"}
    header, data = {}, b""
    for name in sorted(tensors):
        x = tensors[name]
        raw = x.numpy().tobytes()
        header[name] = {"dtype": kinds[x.dtype], "shape": list(x.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open("tests/nn/layers.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    print(len(tensors), "tensors", len(text) + len(data), "bytes")


main()
