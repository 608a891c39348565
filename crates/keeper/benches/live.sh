#!/bin/bash
# The tuner live: five real programs in a row on this kernel's schedulers, over the emulated hard disk, several rounds; and a
# device on which nothing matters. Root; loop devices and FUSE. Everything that it puts up is taken down, also when it fails.
#
#   PHASE=60 WINDOW=5s ROUNDS=4 crates/keeper/benches/live.sh path/to/dwell
#
# PHASE: seconds of each program. WINDOW: the tuner's. ROUNDS: of all five under the tuner. DRIVE, SIZE: the emulated disk.
# SCHEDULERS: the fixed ones. Prints MB a second of the device for each program under each scheduler and each round.
set -u
dwell=$(realpath "${1:?path to dwell}")
phase=${PHASE:-60} window=${WINDOW:-5s} rounds=${ROUNDS:-4} drive=${DRIVE:-wd5000aaks} size=${SIZE:-40G}
work=$(mktemp -d /dev/shm/dwell-live.XXXXXX)
runtime=$work/run
server= tuner= loop= flat=
export LC_ALL=C

down() {
    [ -n "$tuner" ] && kill -INT "$tuner" 2>/dev/null && wait "$tuner" 2>/dev/null
    mountpoint -q "$work/mnt" && umount "$work/mnt"
    [ -n "$flat" ] && losetup -d "$flat"
    [ -n "$server" ] && kill -TERM "$server" 2>/dev/null && wait "$server" 2>/dev/null
    rm -rf "$work"
}
trap down EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" = 0 ] || { echo "SKIPPED: needs root"; exit 0; }
for tool in fio mkfs.ext4 losetup setsid; do command -v $tool >/dev/null || { echo "SKIPPED: no $tool"; exit 0; }; done
[ -e /dev/fuse ] && [ -e /dev/loop-control ] || { echo "SKIPPED: no FUSE or loop devices"; exit 0; }

# The file system is made and filled on the backing file, at the speed of memory, before the disk is emulated.
truncate -s "$(numfmt --from=si "$size")" "$work/disk"
mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 -O ^has_journal "$work/disk" || exit 1
mkdir "$work/mnt"
mount -o loop "$work/disk" "$work/mnt" || exit 1
for i in 1 2 3; do dd if=/dev/urandom of="$work/mnt/big$i" bs=1M count="${BIG:-300}" status=none; done
mkdir "$work/mnt/tree" "$work/mnt/copy"
cp -r "${TREE:-/usr/include}" "$work/mnt/tree/" 2>/dev/null
umount "$work/mnt"

"$dwell" serve "$work/disk" --drive "$drive" --size "$size" --scheduler noop --attach >"$work/device" 2>"$work/server" &
server=$!
for _ in $(seq 100); do loop=$(head -n1 "$work/device"); [ -n "$loop" ] && break; sleep 0.1; done
[ -n "$loop" ] || { echo "the disk did not come up:"; cat "$work/server"; exit 1; }
name=${loop#/dev/} queue=/sys/block/${loop#/dev/}/queue
mount "$loop" "$work/mnt" || exit 1
schedulers=${SCHEDULERS:-$(tr -d '[]' <"$queue/scheduler")}

# The five programs, each for as long as it is given.
streams() { cat "$work/mnt/big1" >/dev/null & cat "$work/mnt/big2" >/dev/null & wait; }
search() { grep -r -c no-such-word "$work/mnt/tree" >/dev/null; }
copy() { cp -r "$work/mnt/tree" "$work/mnt/copy/" && sync -f "$work/mnt"; rm -rf "$work/mnt/copy/tree"; }
database() { fio --name=db --filename="$work/mnt/big3" --rw=randrw --rwmixread=80 --bs=16k --direct=1 --ioengine=psync --numjobs=8 --fdatasync=8 --time_based --runtime="$phase" >/dev/null; }
sortwrite() { sort -R "$work/mnt/big1" -S 64M -T "$work/mnt/copy" -o "$work/mnt/copy/sorted" & cat "$work/mnt/big2" >/dev/null; wait; }
programs="streams search copy database sortwrite"

moved() { awk '{ printf "%.0f", ($3 + $7) * 512 }' "/sys/block/$name/stat"; }
export -f streams search copy database sortwrite
export work phase

# One program for one phase: MB a second of the device.
run() {
    echo 3 >/proc/sys/vm/drop_caches
    local from; from=$(moved)
    timeout -k 5 -s TERM "$phase" setsid -w bash -c "trap 'kill 0' TERM; while :; do $1; echo 3 >/proc/sys/vm/drop_caches; done" >/dev/null 2>&1
    echo $((($(moved) - from) / phase)) | awk '{ printf "%9.2f", $1 / 1e6 }'
}
round() {
    printf '%-24s' "$1"
    for program in $programs; do run "$program"; done
    echo
}

printf '%-24s' 'MB/s'; for program in $programs; do printf '%9s' "$program"; done; echo
for scheduler in $schedulers; do
    echo "$scheduler" >"$queue/scheduler"
    round "$scheduler"
done
echo none >"$queue/scheduler"
"$dwell" tune "$loop" --window "$window" --database "$work/tuner.sqlite" --runtime "$runtime" --seed 1 ${OPTIONS:-} >"$work/decisions" 2>"$work/summary" &
tuner=$!
for n in $(seq "$rounds"); do round "tuner, round $n"; done
kill -INT $tuner; wait $tuner; tuner=
tail -n1 "$work/summary"
echo "windows by scheduler asked for:"; grep -oE '(switch to|stay with) [^:]+' "$work/decisions" | sort | uniq -c | sort -rn
[ "$(sed 's/.*\[\(.*\)\].*/\1/' "$queue/scheduler")" = none ] && echo "put back: yes" || echo "put back: NO"

# Where nothing matters: memory behind a loop device. Its throughput with and without the tuner, in turns.
truncate -s 256M "$work/flat"
flat=$(losetup -f --show "$work/flat")
speed() { fio --name=flat --filename="$flat" --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=8 --time_based --runtime="$1" --minimal | cut -d';' -f8; }
before=$(sed 's/.*\[\(.*\)\].*/\1/' "/sys/block/${flat#/dev/}/queue/scheduler")
without=$(speed "$phase")
"$dwell" tune "$flat" --window 500ms --database "$work/tuner.sqlite" --runtime "$runtime" --seed 1 >"$work/flat-decisions" 2>"$work/flat-summary" &
tuner=$!
speed "$phase" >/dev/null
chosen=$(sed 's/.*\[\(.*\)\].*/\1/' "/sys/block/${flat#/dev/}/queue/scheduler")
with=$(speed "$phase")
kill -INT $tuner; wait $tuner; tuner=
again=$(speed "$phase")
echo "nothing matters: $before before, $chosen chosen; $without and $again IOPS without the tuner, $with with it at rest"
tail -n1 "$work/flat-summary"
