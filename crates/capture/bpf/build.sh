#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds an object that is loaded into the kernel, with its source and its compiler's name inside:
#     sh crates/capture/bpf/build.sh [name [output]]        # name: block or causes; without one, both
set -eu
[ $# -gt 0 ] || { sh "$0" block && exec sh "$0" causes; }
source=$1.bpf.c
output=$(realpath "${2:-$(dirname "$0")/$1.bpf.o}")
cd "$(dirname "$0")"
clang --target=bpfel -mcpu=v3 -O2 -g -fdebug-prefix-map="$PWD"=. -Wall -Werror -c "$source" -o "$output"
llvm-strip -g "$output"
compiler=$(mktemp) sources=$(mktemp)
trap 'rm -f "$compiler" "$sources"' EXIT
clang --version | head -n 1 >"$compiler"
find "$source" "$1" -name '*.[ch]' 2>/dev/null | sort | xargs cat >"$sources"
llvm-objcopy --add-section dwell.source="$sources" --add-section dwell.compiler="$compiler" "$output"
