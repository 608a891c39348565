#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds the object that is loaded into the kernel, with its source and its compiler's name inside:
#     sh crates/capture/bpf/build.sh [output]
set -eu
output=$(realpath "${1:-$(dirname "$0")/block.bpf.o}")
cd "$(dirname "$0")"
clang --target=bpfel -mcpu=v3 -O2 -g -fdebug-prefix-map="$PWD"=. -Wall -Werror -c block.bpf.c -o "$output"
llvm-strip -g "$output"
compiler=$(mktemp)
trap 'rm -f "$compiler"' EXIT
clang --version | head -n 1 >"$compiler"
llvm-objcopy --add-section dwell.source=block.bpf.c --add-section dwell.compiler="$compiler" "$output"
