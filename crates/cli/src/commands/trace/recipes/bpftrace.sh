#!/bin/sh
# Records a device's requests with bpftrace (Debian: apt install bpftrace). Needs root and a kernel with BPF.
#
#   dwell trace recipe bpftrace >bpftrace.sh
#   sh bpftrace.sh /dev/sda 60 io.ftrace
#   dwell trace info io.ftrace
#
# The lines have the form of the kernel's tracer. The program runs in the kernel and reports one device only; extend it with conditions on
# comm, pid or args->bytes to report less.
set -eu
[ $# -eq 3 ] || { echo "usage: $0 DEVICE SECONDS OUTPUT" >&2; exit 2; }
device=$1 seconds=$2 output=$3
[ ! -e "$output" ] || { echo "$output: exists; name another file" >&2; exit 2; }
command -v bpftrace >/dev/null || { echo "bpftrace is not installed; 'dwell trace recipe ftrace' needs nothing" >&2; exit 4; }
name=$(basename "$(readlink -f "$device")")
number=$(cat "/sys/class/block/$name/dev")
major=${number%:*} minor=${number#*:}
dev=$(( (major << 20) | minor ))
bpftrace -o "$output" -e "
tracepoint:block:block_rq_issue /args->dev == $dev/ {
    printf(\"%s-%d [%03d] ..... %d.%06d: block_rq_issue: $major,$minor %s %d () %d + %d [%s]\\n\", comm, tid, cpu,
        nsecs / 1000000000, nsecs % 1000000000 / 1000, args->rwbs, args->bytes, args->sector, args->nr_sector, args->comm);
}
tracepoint:block:block_rq_complete /args->dev == $dev/ {
    printf(\"%s-%d [%03d] ..... %d.%06d: block_rq_complete: $major,$minor %s () %d + %d [%d]\\n\", comm, tid, cpu,
        nsecs / 1000000000, nsecs % 1000000000 / 1000, args->rwbs, args->sector, args->nr_sector, args->error);
}
interval:s:$seconds { exit(); }
" || {
    rm -f "$output"
    echo "bpftrace failed; $output was removed" >&2
    exit 1
}
