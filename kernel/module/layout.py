#!/usr/bin/env python3
"""layout.py VMLINUX: assertions for the compiler of where the kernel's BTF places the members that elevator_abi.h declares.

VMLINUX is an ELF file with a section .BTF (linux-headers of 6.12 and later contain one), raw BTF (/sys/kernel/btf/vmlinux),
or a kernel image compressed with xz or gzip (/boot/vmlinuz-6.1.*).
"""
import lzma
import struct
import sys
import zlib

# Structures that elevator_abi.h declares whole, and those that it declares the first members of.
WHOLE = {"elevator_mq_ops", "elevator_type", "elevator_queue", "elv_fs_entry"}
FIRST = {"blk_mq_alloc_data": {"q", "flags", "shallow_depth"}}

KIND_ARRAY, KIND_STRUCT, KIND_UNION, KIND_ENUM, KIND_PROTO, KIND_VAR, KIND_DATASEC = 3, 4, 5, 6, 13, 14, 15
KIND_INT, KIND_TAG, KIND_ENUM64 = 1, 17, 19
# Bytes behind the common header: once, and for each of vlen entries.
ONCE = {KIND_INT: 4, KIND_ARRAY: 12, KIND_VAR: 4, KIND_TAG: 4}
EACH = {KIND_STRUCT: 12, KIND_UNION: 12, KIND_ENUM: 8, KIND_PROTO: 8, KIND_DATASEC: 12, KIND_ENUM64: 12}


def decompressed(image):
    """The ELF file inside a kernel image, or None."""
    for magic, make in (
        (b"\xfd7zXZ\0", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)),
        (b"\x1f\x8b\x08", lambda: zlib.decompressobj(31)),
    ):
        at = image.find(magic)
        while at >= 0:
            try:
                data = make().decompress(image[at:])
                if data[:4] == b"\x7fELF":
                    return data
            except (lzma.LZMAError, zlib.error):
                pass  # The magic number occurred by chance.
            at = image.find(magic, at + 1)
    return None


def btf_of(path):
    data = open(path, "rb").read()
    if data[:2] == b"\x9f\xeb":
        return data
    if data[:4] != b"\x7fELF":
        data = decompressed(data) or sys.exit(f"{path}: neither an ELF file, nor BTF, nor an image compressed with xz or gzip")
    (shoff,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * size) for i in range(count)]
    for section in sections:
        name = sections[names][4] + section[0]
        if data[name : data.index(b"\0", name)] == b".BTF":
            return data[section[4] : section[4] + section[5]]
    sys.exit(f"{path}: no section .BTF")


def structures(btf):
    """(name, size, [(member, byte offset)]) of every structure."""
    _, _, _, header, types, types_size, strings, _ = struct.unpack_from("<HBBIIIII", btf)
    text = lambda at: btf[header + strings + at : btf.index(b"\0", header + strings + at)].decode()
    at, end = header + types, header + types + types_size
    while at < end:
        name, info, size = struct.unpack_from("<III", btf, at)
        kind, count, has_bits = info >> 24 & 31, info & 0xFFFF, info >> 31
        at += 12
        if kind == KIND_STRUCT:
            members = [struct.unpack_from("<III", btf, at + 12 * i) for i in range(count)]
            yield text(name), size, [(text(m), (o & 0xFFFFFF if has_bits else o) // 8) for m, _, o in members]
        at += ONCE.get(kind, 0) + EACH.get(kind, 0) * count


def main(path):
    found = {}
    for name, size, members in structures(btf_of(path)):
        if name in WHOLE or name in FIRST:
            found.setdefault(name, (size, members))
    print("/* Written by layout.py. */\n#include <linux/build_bug.h>\n#include <linux/stddef.h>")
    for name in sorted(WHOLE | FIRST.keys()):
        if name not in found:
            print(f'#error "this kernel has no struct {name}"')
            continue
        size, members = found[name]
        if name in WHOLE:
            print(f'static_assert(sizeof(struct {name}) == {size}, "struct {name} differs from elevator_abi.h");')
        for member, offset in members:
            if name in WHOLE or member in FIRST[name]:
                text = f'"struct {name}, member {member} differs from elevator_abi.h"'
                print(f"static_assert(offsetof(struct {name}, {member}) == {offset}, {text});")


main(sys.argv[1])
