#!/bin/sh
# Records a device's requests with blktrace (Debian: apt install blktrace). Needs root and a kernel with CONFIG_BLK_DEV_IO_TRACE.
#
#   dwell trace recipe blktrace >blktrace.sh
#   sh blktrace.sh /dev/sda 60 io.blktrace
#   dwell trace info io.blktrace
#
# All processors' events go to one file in blktrace's binary format, which Dwell reads; blkparse is not needed.
set -eu
[ $# -eq 3 ] || { echo "usage: $0 DEVICE SECONDS OUTPUT" >&2; exit 2; }
device=$1 seconds=$2 output=$3
[ ! -e "$output" ] || { echo "$output: exists; name another file" >&2; exit 2; }
command -v blktrace >/dev/null || { echo "blktrace is not installed; 'dwell trace recipe ftrace' needs nothing" >&2; exit 4; }
[ -d /sys/kernel/debug/block ] || {
    echo "no /sys/kernel/debug/block, which blktrace needs; as root: mount -t debugfs debugfs /sys/kernel/debug" >&2
    exit 4
}
unsuccessful() {
    timeout -k 5 5 blktrace -d "$device" -k >/dev/null 2>&1 || :
    rm -f "$output"
}
trap 'unsuccessful; exit 130' INT TERM
# blktrace may wait for ever if it cannot open its files; the kernel's trace of the device must then be removed. In another process group than
# the shell's (without --foreground), it would not receive Ctrl-C.
timeout --foreground -k 5 $((seconds + 5)) blktrace -d "$device" -w "$seconds" -a queue -a issue -a complete -o - >"$output" || {
    unsuccessful
    echo "blktrace failed, or did not end within $((seconds + 5)) s; $output was removed" >&2
    exit 1
}
