#!/usr/bin/env python3
"""Writes bch.txt: ECC bytes from the BCH encoder of the Linux kernel.

    python3 -m venv venv && venv/bin/pip install bchlib==2.1.3
    venv/bin/python bch.py > bch.txt

bchlib wraps the kernel's lib/bch.c. It judges; nothing here is built from it.
"""

import bchlib

MASK = (1 << 64) - 1
POLYNOMIALS = {5: 0x25, 6: 0x43, 8: 0x11D, 10: 0x409, 12: 0x1053, 13: 0x201B, 14: 0x402B, 15: 0x8003}

HEADER = """\
# ECC bytes of binary BCH codes, made by bch.py from the Linux kernel's own encoder (PyPI bchlib 2.1.3).
# Data: words of 64 bits from splitmix64, lowest byte first. With state = seed, each word is:
#   state += 0x9E3779B97F4A7C15; z = state; z = (z ^ z>>30) * 0xBF58476D1CE4E5B9;
#   z = (z ^ z>>27) * 0x94D049BB133111EB; word = z ^ z>>31
# Columns: primitive polynomial, bits corrected, data bytes, seed, ECC bytes (no mask, no bit swap)"""


def noise(seed, length):
    """`length` bytes of splitmix64."""
    out = bytearray()
    while len(out) < length:
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = ((seed ^ seed >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        out += (z ^ z >> 31).to_bytes(8, "little")
    return bytes(out[:length])


def line(polynomial, t, length, seed):
    code = bchlib.BCH(t, prim_poly=polynomial)
    ecc = code.encode(noise(seed, length))
    return f"{polynomial:#x} {t} {length} {seed} {bytes(ecc).hex()}"


def cases():
    """The codes of NAND first, then other fields, strengths and lengths."""
    for polynomial, length in [(0x201B, 512), (0x402B, 1024), (0x4443, 1024)]:
        for t in [1, 4, 8, 16, 24, 40]:
            for seed in range(3):
                yield polynomial, t, length, seed
    for m, polynomial in POLYNOMIALS.items():
        for t in [1, 2, 3, 5, 11, 32, 64]:
            room = ((1 << m) - 1 - m * t) // 8
            for length in sorted({1, room // 2, room}):
                if 0 < length <= room and m * t < (1 << m) - 1:
                    yield polynomial, t, length, 7


if __name__ == "__main__":
    print(HEADER)
    for case in cases():
        print(line(*case))
