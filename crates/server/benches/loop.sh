#!/bin/bash
# Operations per second and server CPU per operation through FUSE and a loop device: Dwell's memory back end under
# `deadline`, filled with data first. Needs root and fio.
#
#   crates/server/benches/loop.sh TARGET_DIRECTORY/release/examples/serve [SECONDS] [ROUNDS]
set -eu
serve=$1 seconds=${2:-4} rounds=${3:-3}
work=$(mktemp -d)
ticks=$(getconf CLK_TCK)
"$serve" --memory 1G --attach --runtime "$work/run" --scheduler deadline >"$work/log" &
server=$!
trap 'kill $server 2>/dev/null; wait $server; rm -rf "$work"' EXIT
for _ in $(seq 100); do grep -q serving "$work/log" && break; sleep 0.05; done
device=$(sed -n 's/^serving //p' "$work/log")
# A loop device that is not there would have fio measure a file of that name.
[ -b "$device" ] || { echo "not attached" >&2; exit 1; }
cpu() { awk '{print $14 + $15}' "/proc/$server/stat"; }
job() {
    local name=$1 before after
    shift
    before=$(cpu)
    fio --name=j --filename="$device" --direct=1 --ioengine=libaio --size=1G --time_based --runtime="$seconds" \
        --output-format=json "$@" >"$work/json"
    after=$(cpu)
    python3 - "$work/json" "$name" "$((after - before))" "$ticks" <<'P'
import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
ops = job["read"]["total_ios"] + job["write"]["total_ios"]
side = job["read"] if job["read"]["total_ios"] else job["write"]
rate = job["read"]["iops"] + job["write"]["iops"]
cpu = int(sys.argv[3]) / int(sys.argv[4]) * 1e6 / max(ops, 1)
print(f"{sys.argv[2]:14} {rate:9.0f}/s {cpu:7.2f} us {side['clat_ns']['percentile']['50.000000'] / 1e3:8.1f} us", flush=True)
P
}
fio --name=fill --filename="$device" --direct=1 --ioengine=libaio --size=1G --rw=write --bs=1M --iodepth=8 >/dev/null
for _ in $(seq "$rounds"); do
    job read-4k-32 --rw=randread --bs=4k --iodepth=32
    job write-4k-32 --rw=randwrite --bs=4k --iodepth=32
    job read-128k-8 --rw=read --bs=128k --iodepth=8
    job read-4k-1 --rw=randread --bs=4k --iodepth=1
done
