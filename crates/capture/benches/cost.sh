#!/bin/bash
# What looking at a device costs: sh crates/capture/benches/cost.sh; needs root, fio and bpftool.
# Time in the BPF programs (kernel.bpf_stats_enabled), time of the reader, and throughput of a memory device without,
# with arrivals, and with completions, interleaved.
set -euo pipefail
cd "$(dirname "$0")/../../.."
cargo build --quiet --release -p dwell-capture --example watch
watch="${CARGO_TARGET_DIR:-target}/release/examples/watch"
file=$(mktemp /dev/shm/dwell-cost-XXXX)
dd if=/dev/zero of="$file" bs=1M count=256 status=none
device=$(losetup --find --show "$file")
trap 'sysctl -q kernel.bpf_stats_enabled=0; losetup --detach "$device"; rm -f "$file"' EXIT
echo none >"/sys/block/$(basename "$device")/queue/scheduler"

read_at() { # iops (0: as fast as it goes), seconds
    nice -n "${nice:-0}" fio --name=read --filename="$device" --direct=1 --rw=randread --bs=4k --ioengine=libaio \
        --iodepth=32 --time_based --runtime="$2" --rate_iops="$1" --minimal | cut -d';' -f8
}

sysctl -q kernel.bpf_stats_enabled=1
for rate in 10000 100000; do
    for what in "" completions; do
        "$watch" "$device" 7 $what >/tmp/dwell-watch.$$ & watching=$!
        sleep 1
        echo "at $rate ${what:-arrivals}: $(read_at "$rate" 5) IOPS"
        bpftool prog show | awk '/bio_queue|request_complete/ && /run_cnt/ { for (i = 1; i < NF; i++) { if ($i == "name") n = $(i+1); if ($i == "run_time_ns") t = $(i+1); if ($i == "run_cnt") c = $(i+1) } printf "  %s: %d ns, %d times\n", n, t / c, c }'
        wait "$watching"
        echo "  $(cat /tmp/dwell-watch.$$)"
    done
done
sysctl -q kernel.bpf_stats_enabled=0
echo "as fast as it goes: without, arrivals, completions"
for _ in 1 2 3 4 5 6 7; do
    without=$(read_at 0 2)
    "$watch" "$device" 4 >/dev/null & watching=$!; sleep 1; arrivals=$(read_at 0 2); wait "$watching"
    "$watch" "$device" 4 completions >/dev/null & watching=$!; sleep 1; both=$(read_at 0 2); wait "$watching"
    echo "$without $arrivals $both"
done
rm -f /tmp/dwell-watch.$$
