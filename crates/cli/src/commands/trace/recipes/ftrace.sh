#!/bin/sh
# Records a device's requests with the kernel's tracer. Needs root, and nothing installed.
#
#   dwell trace recipe ftrace >ftrace.sh
#   sh ftrace.sh /dev/sda 60 io.ftrace
#   dwell trace info io.ftrace
#
# The events go through a tracer instance of their own, which is removed at the end, so that other users of the tracer are unaffected.
set -eu
[ $# -eq 3 ] || { echo "usage: $0 DEVICE SECONDS OUTPUT" >&2; exit 2; }
device=$1 seconds=$2 output=$3
[ ! -e "$output" ] || { echo "$output: exists; name another file" >&2; exit 2; }
name=$(basename "$(readlink -f "$device")")
number=$(cat "/sys/class/block/$name/dev")
tracing=/sys/kernel/tracing
[ -d "$tracing/instances" ] || mount -t tracefs tracefs "$tracing"
instance=$tracing/instances/dwell-recipe-$$
mkdir "$instance"
trap 'echo 0 >"$instance/tracing_on"; rmdir "$instance"' EXIT
trap 'exit 130' INT TERM
# block_io_start exists since Linux 6.5; before, block_rq_insert is the start (silent under the scheduler none), or the issue.
for event in block_io_start block_rq_insert block_rq_issue block_rq_complete; do
    [ -d "$instance/events/block/$event" ] || continue
    echo "dev == $(( (${number%:*} << 20) | ${number#*:} ))" >"$instance/events/block/$event/filter"
    echo 1 >"$instance/events/block/$event/enable"
done
echo 16384 >"$instance/buffer_size_kb"
# In another process group than the shell's (without --foreground), cat would not receive Ctrl-C.
timeout --foreground "$seconds" cat "$instance/trace_pipe" >"$output" || [ $? -eq 124 ] || {
    rm -f "$output"
    exit 1
}
