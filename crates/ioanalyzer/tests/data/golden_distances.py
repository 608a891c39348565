"""Makes fastdtw.tsv, the golden distances that crates/tuner's FastDTW must reproduce to the last bit.

    pip install fastdtw==0.3.4 --no-binary fastdtw     # the pure Python reference; the compiled one answers differently
    python golden_distances.py > fastdtw.tsv

Each line: kind, seed, length of a, length of b, radius, then the distance's 64 bits in hexadecimal. Both series come from
one SplitMix64 generator, a first. tests/golden_fastdtw.rs makes the same inputs.
"""
import struct
from fastdtw.fastdtw import fastdtw

MASK = (1 << 64) - 1


class SplitMix:
    def __init__(self, seed):
        self.state = seed & MASK

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)


def value(kind, random):
    r = random.next()
    if kind == "jumps":  # mostly sequential, now and then far
        return 8.0 if r % 10 < 7 else float((r >> 8) % (1 << 32)) - float(1 << 31)
    if kind == "ties":  # few distinct values: almost every choice is a tie
        return float(r % 4)
    if kind == "fraction":
        return (r >> 11) / float(1 << 53)
    if kind == "huge":  # sums leave the 53 bits and round
        return float((r >> 11) % (1 << 50)) - float(1 << 49)
    raise ValueError(kind)


def main():
    lengths = [(n, m) for n in range(1, 9) for m in range(1, 9)]
    lengths += [(13, 13), (31, 32), (33, 31), (100, 100), (101, 99), (127, 128), (250, 250), (3, 200), (200, 2), (7, 90), (300, 17)]
    lengths += [(1000, 1000)] * 3 + [(999, 1000), (777, 777), (1000, 400)]
    seed = 1
    for kind in ("jumps", "ties", "fraction", "huge"):
        for n, m in lengths:
            for radius in (1,) if n > 32 else (1, 2):
                random = SplitMix(seed)
                a = [value(kind, random) for _ in range(n)]
                b = [value(kind, random) for _ in range(m)]
                bits = struct.unpack("<Q", struct.pack("<d", float(fastdtw(a, b, radius=radius)[0])))[0]
                print(kind, seed, n, m, radius, f"{bits:016x}", sep="\t")
                seed += 1


main()
