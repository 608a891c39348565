"""Programs. Each runs until SIGTERM, or for `seconds`, and prints one line of JSON."""

import contextlib
import json
import mmap
import os
import random
import socket
import sqlite3
import statistics
import subprocess
import time

KIB, MIB = 1 << 10, 1 << 20


class Clock:
    """Counts what happens in the measured part of a run."""

    def __init__(self, warm_up, seconds):
        self.begin = time.monotonic() + warm_up
        self.end = self.begin + seconds
        self.seconds = seconds

    def measures(self):
        now = time.monotonic()
        return None if now >= self.end else now >= self.begin


def write_file(path, size, block, clock, offset=None, flags=0):
    """Writes a file over and over; returns the bytes in the measured part."""
    data, count, position = mmap.mmap(-1, block), 0, 0  # at an address for O_DIRECT
    data.write(os.urandom(block))
    file = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    while (measures := clock.measures()) is not None:
        written = os.pwrite(file, data, offset(position) if offset else position)
        count += written if measures else 0
        position = (position + block) % size
    return count


def worker(kind, path, warm_up, seconds, interval):
    clock = Clock(warm_up, seconds)
    count, waits = 0, []
    if kind == "writer":
        count = write_file(path, 256 * MIB, 64 * KIB, clock)
    elif kind == "overwriter":
        count = write_file(path, 4 * MIB, 64 * KIB, clock)
    elif kind == "rewriter":
        count = write_file(path, 40 * MIB, 256 * KIB, clock)
    elif kind == "cycler":
        count = write_file(path, 600 * MIB, 64 * KIB, clock)
    elif kind == "direct-writer":
        count = write_file(path, 1024 * MIB, MIB, clock, flags=os.O_DIRECT)
    elif kind == "direct-random-writer":
        count = write_file(path, 512 * MIB, 4 * KIB, clock, lambda _: random.randrange(512 * MIB // 4096) * 4096, os.O_DIRECT)
    elif kind == "random-writer":
        count = write_file(path, 512 * MIB, 4 * KIB, clock, lambda _: random.randrange(512 * MIB // 4096) * 4096)
    elif kind in ("mapped", "mapped-random", "msync"):
        count = store(path, kind, clock, waits)
    elif kind in ("reader", "random-reader"):
        file, size, position = os.open(path, os.O_RDONLY), os.path.getsize(path), 0
        block = 128 * KIB if kind == "reader" else 4 * KIB
        advice = os.POSIX_FADV_SEQUENTIAL if kind == "reader" else os.POSIX_FADV_RANDOM
        os.posix_fadvise(file, 0, 0, advice)
        while (measures := clock.measures()) is not None:
            at = position if kind == "reader" else random.randrange(size // block) * block
            begun = time.monotonic()
            read = len(os.pread(file, block, at))
            if measures:
                waits.append(time.monotonic() - begun)
                count += read
            position += block
            # Each block comes from the disk. The kernel drops whole folios only, which may be larger than a block.
            if position % (16 * MIB) == 0 or position >= size or kind == "random-reader":
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            position %= size
    elif kind in ("log", "syncer"):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        data, position = os.urandom(4 * KIB), 0
        while (measures := clock.measures()) is not None:
            os.pwrite(file, data, position)
            position = (position + len(data)) % (64 * MIB)
            begun = time.monotonic()
            os.fsync(file)
            if measures:
                waits.append(time.monotonic() - begun)
                count += len(data)
            if kind == "log":
                time.sleep(max(0, min(interval, clock.end - time.monotonic())))
    elif kind in ("async-reader", "async-writer"):
        count = submit(path, "randread" if kind == "async-reader" else "randwrite", warm_up, seconds)
    elif kind == "sqlite":
        count = commit(path, clock, waits)
    elif kind == "copier":
        count = copy(path, clock)
    elif kind == "small-files":
        # A thousand files in each directory.
        data, number = os.urandom(16 * KIB), 0
        while (measures := clock.measures()) is not None:
            if number % 1000 == 0:
                os.makedirs(f"{path}/{number // 1000}")
            with open(f"{path}/{number // 1000}/{number}", "xb", buffering=0) as file:
                written = file.write(data)
            count += written if measures else 0
            number += 1
    elif kind == "creator":
        os.makedirs(path, exist_ok=True)
        number = 0
        while (measures := clock.measures()) is not None:
            name = f"{path}/{number % 5000}"
            number += 1
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(file, b"x" * 100)
            os.close(file)
            if number % 5000 == 0:
                os.rename(name, name + ".old")
            count += 1 if measures else 0
    result = {"bytes": count, "per_second": count / clock.seconds}
    if waits:
        waits.sort()
        rank = lambda share: waits[min(len(waits) - 1, int(share * len(waits)))] * 1e3
        result |= {"count": len(waits), "p50_ms": rank(0.5), "p99_ms": rank(0.99), "max_ms": waits[-1] * 1e3}
    print(json.dumps(result), flush=True)


def submit(path, pattern, warm_up, seconds):
    """Direct requests of 4 KiB at random places by io_uring, 256 at once, as fio makes them; returns the bytes in the measured part."""
    run = subprocess.run(["fio", "--name=a", f"--filename={path}", f"--rw={pattern}", f"--size={512 * MIB}", "--bs=4k", "--direct=1", "--ioengine=io_uring",
                          "--iodepth=256", "--time_based", f"--ramp_time={warm_up}s", f"--runtime={seconds}s", "--output-format=json"],
                         check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    job = json.loads(run.stdout)["jobs"][0]
    return job["read"]["io_bytes"] + job["write"]["io_bytes"]


def store(path, kind, clock, waits):
    """Stores into a mapped file: 64 KiB after 64 KiB, a byte of a page at random, or 4 KiB and `msync`; returns the bytes of the stores."""
    file, count, position = os.open(path, os.O_RDWR), 0, 0
    size = os.path.getsize(path)
    memory = mmap.mmap(file, size)
    data = os.urandom({"mapped": 64 * KIB, "mapped-random": 1, "msync": 4 * KIB}[kind])
    while (measures := clock.measures()) is not None:
        if kind == "mapped-random":
            position = random.randrange(size // mmap.PAGESIZE) * mmap.PAGESIZE
        memory[position:position + len(data)] = data
        if kind == "msync":
            begun = time.monotonic()
            memory.flush(position, len(data))
            if measures:
                waits.append(time.monotonic() - begun)
        position = (position + len(data)) % size
        count += len(data) if measures else 0
    return count


def commit(path, clock, waits):
    """Commits rows to an SQLite database, each durable, with a pause of 20 ms; returns their number."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("create table rows (number integer primary key, text)")
    count = 0
    while (measures := clock.measures()) is not None:
        begun = time.monotonic()
        database.execute("insert into rows (text) values (?)", ("x" * 200,))
        if measures:
            waits.append(time.monotonic() - begun)
            count += 1
        time.sleep(0.02)
    return count


def copy(path, clock):
    """Copies a file over and over, reading it from the device each time; returns the bytes that it wrote."""
    source, target = os.open(path, os.O_RDONLY), os.open(path + ".copy", os.O_RDWR | os.O_CREAT, 0o600)
    count, position, size = 0, 0, os.path.getsize(path)
    while (measures := clock.measures()) is not None:
        written = os.pwrite(target, os.pread(source, MIB, position), position)
        count += written if measures else 0
        position += MIB
        if position >= size:
            os.posix_fadvise(source, 0, 0, os.POSIX_FADV_DONTNEED)
            position = 0
    return count


# A replicated store. A client sends pieces of blocks to the first datanode, which passes each on to the next one and writes it to a file of the
# block. A piece is acknowledged when all have written it.
PIECE, BLOCK = MIB, 16 * MIB


def receive(stream, size):
    piece = bytearray()
    while len(piece) < size:
        part = stream.recv(size - len(piece))
        if not part:
            return None
        piece += part
    return bytes(piece)


def datanode(path, port, next_port, blocks):
    """Stores the pieces of one client in `blocks` files, from the port `port` of the loopback device; prints a line when it listens."""
    listener = socket.create_server(("127.0.0.1", int(port)))
    print("listening", flush=True)
    client, _ = listener.accept()
    after = socket.create_connection(("127.0.0.1", int(next_port))) if next_port else None
    os.makedirs(path, exist_ok=True)
    position = 0
    while (piece := receive(client, PIECE)) is not None:
        if after:
            after.sendall(piece)
        block, offset = divmod(position, BLOCK)
        file = os.open(f"{path}/{block % int(blocks)}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(file, piece, offset)
        os.close(file)
        position += PIECE
        if after and receive(after, 1) is None:
            break
        client.sendall(b"1")


def client(port, warm_up, seconds):
    """Writes to the datanode at a port, four pieces ahead of its acknowledgements, and prints the acknowledged bytes."""
    stream, clock = socket.create_connection(("127.0.0.1", int(port))), Clock(warm_up, seconds)
    piece, count, ahead = os.urandom(PIECE), 0, 0
    while (measures := clock.measures()) is not None:
        stream.sendall(piece)
        ahead += 1
        if ahead > 4:
            receive(stream, 1)
            ahead -= 1
            count += PIECE if measures else 0
    print(json.dumps({"bytes": count, "per_second": count / seconds}), flush=True)


def timed(kind, path):
    """The time of one operation in ns: the least of the medians of ten parts, as other load only adds time."""
    parts = []
    if kind in ("large", "small"):
        return throughput(path, {"large": MIB, "small": 4 * KIB}[kind])
    if kind == "request":
        file = os.open(path, os.O_RDWR | os.O_DIRECT)
        buffer = mmap.mmap(-1, 4096)
    else:
        file = os.open(path, os.O_RDWR)
        buffer = b"x" * 4096
    for part in range(10):
        took = []
        for step in range(2000):
            # A page of its own each time, a byte of the same page, a request.
            at = {"page": (part * 2000 + step) * 4096, "call": 0, "request": step * 4096}[kind]
            begun = time.perf_counter_ns()
            if kind == "request":
                os.pwritev(file, [buffer], at)
            else:
                os.pwrite(file, buffer if kind == "page" else b"x", at)
            took.append(time.perf_counter_ns() - begun)
        parts.append(statistics.median(took))
    print(json.dumps({"ns": min(parts)}), flush=True)


def throughput(path, block):
    """Bytes per second of a file of 256 MiB that is written in blocks and made durable."""
    file, data = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), os.urandom(block)
    begun = time.monotonic()
    for _ in range(256 * MIB // block):
        os.write(file, data)
    os.fsync(file)
    print(json.dumps({"per_second": 256 * MIB / (time.monotonic() - begun)}), flush=True)


def main(kind, path, *numbers):
    numbers = [float(number) for number in numbers]
    if kind == "datanode":
        # The client ends when its time is over.
        with contextlib.suppress(ConnectionError):
            datanode(path, *numbers)
    elif kind == "client":
        client(path, *numbers)
    elif numbers:
        worker(kind, path, *numbers)
    else:
        timed(kind, path)
