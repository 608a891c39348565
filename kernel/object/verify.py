#!/usr/bin/env python3
"""Checks that an object can be linked into a kernel module: verify.py OBJECT-WITH-STACK-SIZES OBJECT

Fails if the object uses vector or x87 registers, branches or returns without the kernel's thunks, needs symbols other than
the module's own, has relocations that the module loader rejects, or has a function whose stack frame exceeds FRAME_MAX.
"""
import re
import struct
import subprocess
import sys

# Half of what the kernel warns at (CONFIG_FRAME_WARN=2048): a policy is called at the bottom of a deep stack.
FRAME_MAX = 1024
# These run from sysfs and module loading, on a stack of their own.
FRAME_MAX_ALONE = 2048
ALONE = {"dwell_new", "dwell_set_service_times", "dwell_inspect", "dwell_tune"}
MAY_NEED = {"dwellc_alloc", "dwellc_free", "dwellc_panicked", "dwellc_fault", "__x86_return_thunk"}
MAY_RELOCATE = {"R_X86_64_64", "R_X86_64_PC32", "R_X86_64_32", "R_X86_64_32S", "R_X86_64_PLT32", "R_X86_64_PC64"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stack_frames(path):
    """(size, function) of every function, from the section .stack_sizes."""
    data = open(path, "rb").read()
    (shoff,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * entry) for i in range(count)]
    text = lambda at: data[at : data.index(b"\0", at)].decode()
    name = [text(sections[names_at][4] + section[0]) for section in sections]
    symbols_at = sections[name.index(".symtab")]
    symbols = [struct.unpack_from("<IBBHQQ", data, symbols_at[4] + 24 * i) for i in range(symbols_at[5] // 24)]
    names = sections[symbols_at[6]][4]
    functions = {(s[3], s[4]): text(names + s[0]) for s in symbols if s[1] & 15 == 2}
    stack = name.index(".stack_sizes")
    for section in sections:
        if section[1] != 4 or section[7] != stack:
            continue
        for i in range(section[5] // 24):
            at, info, addend = struct.unpack_from("<QQq", data, section[4] + 24 * i)
            symbol = symbols[info >> 32]
            size, shift, byte = 0, 0, sections[stack][4] + at + 8
            while True:
                size |= (data[byte] & 127) << shift
                if not data[byte] & 128:
                    break
                byte, shift = byte + 1, shift + 7
            yield size, functions.get((symbol[3], symbol[4] + addend), "?")


def main(with_sizes, path):
    problems = []
    undefined = {line.split()[-1] for line in output("nm", "-u", path).splitlines()}
    for name in undefined - MAY_NEED:
        if not name.startswith("__x86_indirect_thunk_"):
            problems.append(f"needs {name}, which the module does not have")
    relocations = set(re.findall(r"R_X86_64_\w+", output("readelf", "-rW", path)))
    for kind in relocations - MAY_RELOCATE:
        problems.append(f"has relocations of type {kind}, which the module loader rejects")
    code = output("objdump", "-d", "--no-show-raw-insn", path)
    for what, pattern in (
        ("vector or x87 registers", r"%([xyz]mm|st\()"),
        ("returns without a thunk", r"\sret\b"),
        ("indirect branches without a thunk", r"\s(call|jmp) +\*"),
    ):
        found = len(re.findall(pattern, code))
        if found:
            problems.append(f"has {found} {what}")
    frames = sorted(stack_frames(with_sizes), reverse=True)
    for size, function in frames:
        most = FRAME_MAX_ALONE if function in ALONE else FRAME_MAX
        if size > most:
            problems.append(f"{function} has a stack frame of {size} bytes (at most {most})")
    for problem in problems:
        print(f"{path}: {problem}", file=sys.stderr)
    text = output("size", path).splitlines()[1].split()
    print(f"{path}: {text[0]} bytes of code and constants, deepest stack frame {frames[0][0]} bytes")
    return 1 if problems else 0


sys.exit(main(*sys.argv[1:3]))
