"""Run examples/tensors.c on a matrix written here byte for byte; compare what it says and writes.

    check_tensors.py PROGRAM
"""
import os
import struct
import subprocess
import sys
import tempfile

SAID = """x = [2,3] f64
[[0 1 2]
 [3 4 8]]
x[n-1] = [3] f64
[3 4 8]
x[:, ::2] = [2,2] f64
[[0 2]
 [3 8]]
x.T = [3,2] f64
[[0 3]
 [1 4]
 [2 8]]
x x^T = [2,2] f64
[[5 20]
 [20 89]]
x - mean of its rows = [2,3] f64
[[-1.5 -1.5 -3]
 [1.5 1.5 3]]
matmul: inner sizes differ: [2,3] f64, [7,2] f64
"""


def npy(dims, numbers):
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {dims}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(numbers)}d", *numbers)


with tempfile.TemporaryDirectory() as folder:
    source, result = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    with open(source, "wb") as out:
        out.write(npy((2, 3), [0, 1, 2, 3, 4, 8]))
    said = subprocess.run([sys.argv[1], source, result], capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, SAID), said
    with open(result, "rb") as file:
        assert file.read()[-48:] == struct.pack("<6d", -1.5, -1.5, -3, 1.5, 1.5, 3)
    gone = subprocess.run([sys.argv[1], source + "x", result], capture_output=True, text=True)
    assert gone.returncode == 1 and "x.npyx: cannot open" in gone.stderr, gone
