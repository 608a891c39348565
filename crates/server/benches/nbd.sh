#!/bin/bash
# Server CPU per operation and operations per second through NBD on a unix socket: Dwell's memory back end under
# `deadline`, beside nbdkit (memory) and qemu-storage-daemon (null-co with read-zeroes=off), interleaved, each filled with
# data first. Needs fio with its nbd engine; peers that are not installed are skipped, loudly.
#
#   cargo build --release -p server --example serve
#   crates/server/benches/nbd.sh TARGET_DIRECTORY/release/examples/serve [SECONDS] [ROUNDS]
#
# A row: server, job, operations per second, server CPU in us per operation, median latency in us, MB/s.
set -eu
serve=$1 seconds=${2:-4} rounds=${3:-3}
work=$(mktemp -d)
sock=$work/sock
ticks=$(getconf CLK_TCK)
trap 'for p in $(jobs -p); do kill "$p" 2>/dev/null || true; done; wait; rm -rf "$work"' EXIT

begin() { # server
    rm -f "$sock"
    case $1 in
    dwell) "$serve" --memory 1G --nbd "unix:$sock" --scheduler deadline >"$work/log" & ;;
    dwell-poll) "$serve" --memory 1G --nbd "unix:$sock" --scheduler deadline --poll 100 >"$work/log" & ;;
    nbdkit) nbdkit -f -U "$sock" memory size=1G & ;;
    qemu) qemu-storage-daemon --blockdev null-co,node-name=n,size=1073741824,read-zeroes=off \
        --nbd-server addr.type=unix,addr.path="$sock" --export nbd,id=e,node-name=n,name=,writable=on & ;;
    esac
    server=$!
    for _ in $(seq 100); do [ -S "$sock" ] && return; sleep 0.05; done
    echo "$1 does not start" >&2; exit 1
}

cpu() { awk '{print $14 + $15}' "/proc/$server/stat"; }

job() { # server name fio-arguments...
    local who=$1 name=$2 before after
    shift 2
    before=$(cpu)
    fio --name=j --ioengine=nbd --uri="nbd+unix:///?socket=$sock" --size=1G --time_based --runtime="$seconds" \
        --output-format=json "$@" >"$work/json"
    after=$(cpu)
    python3 - "$work/json" "$who" "$name" "$((after - before))" "$ticks" <<'P'
import json, sys
job = json.loads(open(sys.argv[1]).read().partition("{")[2].join(["{", ""]))["jobs"][0]
who, name, ticks, hz = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
ops = job["read"]["total_ios"] + job["write"]["total_ios"]
side = job["read"] if job["read"]["total_ios"] else job["write"]
median = side["clat_ns"]["percentile"]["50.000000"] / 1e3
rate = job["read"]["iops"] + job["write"]["iops"]
bw = (job["read"]["bw_bytes"] + job["write"]["bw_bytes"]) / 1e6
print(f"{who:11} {name:14} {rate:9.0f}/s {ticks / hz * 1e6 / max(ops, 1):7.2f} us {median:8.1f} us {bw:8.0f} MB/s", flush=True)
P
}

for round in $(seq "$rounds"); do
    for who in ${SERVERS:-dwell nbdkit qemu}; do
        case $who in nbdkit) tool=nbdkit ;; qemu) tool=qemu-storage-daemon ;; *) tool=$serve ;; esac
        command -v "$tool" >/dev/null || { echo "SKIPPED: $tool is not installed" >&2; continue; }
        begin "$who"
        # Data everywhere: an empty disk answers reads with holes, which moves nothing.
        fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$sock" --size=1G --rw=write --bs=1M --iodepth=8 >/dev/null
        job "$who" read-4k-32 --rw=randread --bs=4k --iodepth=32
        job "$who" write-4k-32 --rw=randwrite --bs=4k --iodepth=32
        job "$who" read-128k-8 --rw=read --bs=128k --iodepth=8
        job "$who" write-128k-8 --rw=write --bs=128k --iodepth=8
        job "$who" read-4k-1 --rw=randread --bs=4k --iodepth=1
        kill "$server"; wait "$server" 2>/dev/null || true
    done
done
