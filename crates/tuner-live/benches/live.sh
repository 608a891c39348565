#!/bin/bash
# The tuner live: five real programs in a row on this kernel's schedulers, over the emulated hard disk, several rounds; and a
# device on which nothing matters. Root; loop devices and FUSE. Everything that it puts up is taken down, also when it fails.
#
#   SCHEDULERS="none mq-deadline bfq{low_latency=0}" ROUNDS=5 crates/tuner-live/benches/live.sh path/to/dwell
#
# PHASE: seconds of each program, at least ten windows. WINDOW: the tuner's. ROUNDS: of all five under the tuner. SPEED: of the
# emulated drive, over its natural one. DRIVE, SIZE: the emulated disk. DEPTH: requests that it is given at once, without which an
# elevator has nothing to decide. SCHEDULERS: the fixed ones, which the tuner chooses from, with settings in braces; the first is in use
# before. OWN=1: they are Dwell's, of the server in front of the emulated disk, and not the kernel's.
# SERVICES=0: not every process of a program in a control group of its own, as services are. bfq takes processes of one group whose
# queues begin together for one process, which is what a switch makes them do.
# FLAT: seconds of each measurement of the device where nothing matters, 0 to leave it out. OPTIONS: more for
# `dwell tune`. Takes about PHASE x 5 x (2 x schedulers + ROUNDS) + 9 x FLAT + 120 seconds: 21 minutes as above.
#
# Each fixed scheduler is measured before and after the tuner's rounds, so that a machine that changes is seen. "The whole" is
# how long the same work takes: what the best fixed scheduler moves in each program's phase.
set -u
dwell=$(realpath "${1:?path to dwell}")
phase=${PHASE:-20} window=${WINDOW:-2s} rounds=${ROUNDS:-4} drive=${DRIVE:-wd5000aaks} size=${SIZE:-300G} speed=${SPEED:-1}
depth=${DEPTH:-31} files=$((80 << 30))
measure=${FLAT:-5}
work=$(mktemp -d /dev/shm/dwell-live.XXXXXX)
runtime=$work/run
server= tuner= loop= flat= program=
export LC_ALL=C
groups=
if [ "${SERVICES:-1}" = 1 ]; then
    for controllers in /sys/fs/cgroup/blkio /sys/fs/cgroup; do
        [ -e "$controllers/blkio.reset_stats" ] || grep -qw io "$controllers/cgroup.subtree_control" 2>/dev/null || continue
        mkdir "$controllers/dwell-live-$$" && groups=$controllers/dwell-live-$$ && break
    done
    [ -e "$groups/cgroup.subtree_control" ] && echo +io >"$groups/cgroup.subtree_control"
    [ -n "$groups" ] || echo "SKIPPED: no control groups for I/O, so processes share one"
fi

# Ends a program and whatever it started: a session of its own.
quit() { [ -n "$program" ] && kill -KILL -- "-$program" && wait "$program"; } 2>/dev/null
down() {
    quit
    [ -n "$tuner" ] && kill -INT "$tuner" 2>/dev/null && wait "$tuner" 2>/dev/null
    # A program that was just killed may still hold the mount, and below it the disk, for a moment.
    for _ in {1..40}; do
        mountpoint -q "$work/mnt" || break
        umount "$work/mnt" 2>/dev/null || sleep 0.5
    done
    [ -n "$groups" ] && find "$groups" -depth -type d -exec rmdir {} +
    [ -n "$flat" ] && losetup -d "$flat"
    [ -n "$server" ] && kill -TERM "$server" 2>/dev/null && wait "$server" 2>/dev/null
    rm -rf "$work"
}
trap down EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" = 0 ] || { echo "SKIPPED: needs root"; exit 0; }
for tool in fio mkfs.ext4 losetup setsid; do command -v $tool >/dev/null || { echo "SKIPPED: no $tool"; exit 0; }; done
[ -e /dev/fuse ] && [ -e /dev/loop-control ] || { echo "SKIPPED: no FUSE or loop devices"; exit 0; }

# The file system is made and filled on the backing file, at the speed of memory, before the disk is emulated. It has the first 80
# GiB; two programs ask the disk behind it. Directories in the root are spread over it, so the trees lie far apart.
truncate -s "$(numfmt --from=si "$size")" "$work/disk"
mkfs.ext4 -q -F -N 400000 -E lazy_itable_init=0,lazy_journal_init=0 -O ^has_journal "$work/disk" $((files / 1024))k || exit 1
mkdir "$work/mnt"
mount -o loop "$work/disk" "$work/mnt" || exit 1
for i in 1 2; do
    mkdir "$work/mnt/streams-$i" "$work/mnt/tree-$i"
    dd if=/dev/urandom of="$work/mnt/streams-$i/big" bs=1M count="${BIG:-300}" status=none
    cp -r "${TREE:-/usr/include}" "$work/mnt/tree-$i/" 2>/dev/null
done
dd if=/dev/urandom of="$work/mnt/table" bs=1M count="${BIG:-300}" status=none
umount "$work/mnt"

"$dwell" serve "$work/disk" --drive "$drive" --size "$size" --speed "$speed" --scheduler noop --depth "$depth" --control "$work/ctl" --attach >"$work/device" 2>"$work/server" &
server=$!
for _ in $(seq 100); do loop=$(head -n1 "$work/device"); [ -n "$loop" ] && break; sleep 0.1; done
[ -n "$loop" ] || { echo "the disk did not come up:"; cat "$work/server"; exit 1; }
name=${loop#/dev/} queue=/sys/block/${loop#/dev/}/queue
# Under none, or it is the elevator's queue that is cut.
echo none >"$queue/scheduler"
[ -n "${OWN:-}" ] || echo "$depth" >"$queue/nr_requests"
mount -o noatime "$loop" "$work/mnt" || exit 1
schedulers=${SCHEDULERS:-$([ -n "${OWN:-}" ] && echo "noop deadline stream(deadline)" || tr -d '[]' <"$queue/scheduler")}
first=${schedulers%% *}
arms=$(printf -- '--arm %s ' $schedulers)
settings() { for of in scheduler nr_requests read_ahead_kb wbt_lat_usec; do printf '%s=%s ' $of "$(cat "$queue/$of" 2>/dev/null)"; done; }
# What is in use on a queue, or in the server.
now_in_use() { if [ -n "${OWN:-}" ]; then "$dwell" ctl "$work/ctl" show --json | sed 's/.*"scheduler":"\([^"]*\)".*/\1/'; else in_use "$queue"; fi; }
in_use() { sed 's/.*\[\(.*\)\].*/\1/' "$1/scheduler"; }

# NAME{SETTING=VALUE,...}, as the tuner writes it.
use() {
    if [ -n "${OWN:-}" ]; then "$dwell" ctl "$work/ctl" switch "$1" >/dev/null; return; fi
    local settings=${1#"${1%%\{*}"} setting
    echo "${1%%\{*}" >"$queue/scheduler"
    for setting in $(tr -d '{}' <<<"$settings" | tr , ' '); do echo "${setting#*=}" >"$queue/iosched/${setting%%=*}"; done
}

# The five programs, each for as long as it is given. By bandwidth stream(deadline) is best for readers far apart and for greps, and
# worst for reads beside a stream of writes; the two others treat all processes alike. Of the kernel's, bfq{low_latency=0} is best for readers that
# start under it.
raw="--filename=$loop --allow_mounted_write=1 --direct=1 --ioengine=psync --time_based --runtime=$phase"
readers() { for i in 0 1 2 3; do service $i fio $raw --name=r --rw=read --bs=4k --offset=$((90 + 50 * i))g --size=8g >/dev/null & done; wait; }
beside() {
    service 0 fio $raw --name=w --rw=write --bs=1m --offset=90g --size=4g >/dev/null &
    service 1 fio $raw --name=r --rw=randread --bs=4k --offset=150g --size=100g >/dev/null & wait
}
search() { for i in 1 2; do service $i grep -r -c no-such-word "$work/mnt/tree-$i" >/dev/null & done; wait; }
streams() { for i in 1 2; do service $i cat "$work/mnt/streams-$i/big" >/dev/null & done; wait; }
database() { service 0 fio --name=db --filename="$work/mnt/table" --rw=randrw --rwmixread=80 --bs=16k --direct=1 --ioengine=psync --numjobs=8 --fdatasync=8 --time_based --runtime="$phase" >/dev/null; }
# Runs the rest of its arguments as the service whose name comes first.
service() (
    [ -n "$groups" ] && mkdir -p "$groups/$1" && echo $BASHPID >"$groups/$1/cgroup.procs"
    exec "${@:2}"
)
programs="readers beside search streams database"

moved() { awk '{ printf "%.0f", ($3 + $7) * 512 }' "/sys/block/$name/stat"; }
export -f readers beside search streams database service
export work phase raw groups

# One program for one phase: MB a second of the device.
run() {
    echo 3 >/proc/sys/vm/drop_caches
    local from began; from=$(moved) began=$EPOCHREALTIME
    setsid nice -n -20 bash -c "while :; do $1; echo 3 >/proc/sys/vm/drop_caches; done" >/dev/null 2>&1 &
    program=$!
    sleep "$phase"
    quit
    awk -v bytes=$(($(moved) - from)) -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN { printf "%10.2f", bytes / (to - from) / 1e6 }'
    # What the program left to be done, and to be written, is not the next one's.
    for _ in {1..240}; do pgrep -s "$program" >/dev/null || break; sleep 0.25; done
    program=
    sync -f "$work/mnt"
}
round() {
    { printf '%-28s' "$1"; for each in $programs; do run "$each"; done; echo; } | tee -a "$work/table"
}
fixed() {
    for scheduler in $schedulers; do
        use "$scheduler"
        round "$scheduler@$1"
    done
}

echo "$drive at $speed times its speed, depth $depth, phases of $phase s, windows of $window; load $(cut -d' ' -f1-3 /proc/loadavg)"
printf '%-28s' 'MB/s'; for each in $programs; do printf '%10s' "$each"; done; echo
fixed before
use "$first"
was=$(now_in_use)
# shellcheck disable=SC2086 # several words
"$dwell" tune "$loop" ${OWN:+--control "$work/ctl"} $arms --window "$window" --database "$work/learned" --runtime "$runtime" --seed "${SEED:-1}" ${OPTIONS:-} >"$work/decisions" 2>"$work/summary" &
tuner=$!
for n in $(seq "$rounds"); do round "tuner@$n"; done
kill -INT $tuner; wait $tuner; tuner=
back=$(now_in_use)
fixed after

awk '
    { split($1, who, "@"); for (p = 1; p < NF; p++) v[$1, p] = $(p + 1) > 0.01 ? $(p + 1) : 0.01; n = NF - 1 }
    who[1] == "tuner" { rounds = who[2]; next }
    !(who[1] in seen) { seen[who[1]]; order[++m] = who[1] }
    { for (p = 1; p <= n; p++) { sum[who[1], p] += v[$1, p]; count[who[1], p]++ } }
    END {
        for (p = 1; p <= n; p++) for (i = 1; i <= m; i++) {
            f[i, p] = sum[order[i], p] / count[order[i], p]
            if (f[i, p] > best[p]) { best[p] = f[i, p]; of[p] = order[i] }
        }
        printf "%-28s", "best fixed"; for (p = 1; p <= n; p++) printf "%10s", of[p]; print ""
        for (r = 1; r <= rounds; r++) {
            printf "%-28s", "tuner " r " over it"; whole = near = 0
            for (p = 1; p <= n; p++) { x = v["tuner@" r, p]; printf "%10.3f", x / best[p]; whole += best[p] / x; near += x >= 0.95 * best[p] }
            printf "   the same work takes %.3f; within 5%%: %d of %d\n", whole / n, near, n
        }
        for (i = 1; i <= m; i++) {
            whole = 0; for (p = 1; p <= n; p++) whole += best[p] / f[i, p]
            printf "%-28s the same work takes %.3f of what the best of each phase takes\n", order[i], whole / n
        }
    }' "$work/table"
grep 'windows,' "$work/summary" | tail -n1
grep -oE 'the switch took [0-9]+ ms' "$work/decisions" | awk '{ print $4 }' | sort -n | awk '
    { took[NR] = $1; sum += $1 }
    END { if (NR) printf "a switch takes %.0f ms, median %d, at most %d; %d of them\n", sum / NR, took[int((NR + 1) / 2)], took[NR], NR }'
echo "windows by what was decided:"
grep -oE '(switch to|stay with) [^:]+|measuring|using none|leave it|lasted too long' "$work/decisions" | sort | uniq -c | sort -rn
[ "$back" = "$was" ] && echo "restored: yes" || echo "restored: NO, $back"
[ -n "${KEEP:-}" ] && cp "$work/decisions" "$work/summary" "$work/table" "$KEEP/"

[ "$measure" = 0 ] && exit 0

# Where nothing matters: memory behind a loop device. Three measurements without the tuner, with it at rest, and without again.
truncate -s 256M "$work/flat"
flat=$(losetup -f --show "$work/flat")
queue=/sys/block/${flat#/dev/}/queue
load="--name=flat --filename=$flat --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=8 --time_based --minimal"
# shellcheck disable=SC2086 # several words
iops() { fio $load --runtime="$1" | cut -d';' -f8; }
three() { for _ in 1 2 3; do iops "$measure"; done | sort -n | tr '\n' ' '; }
before=$(in_use "$queue")
echo none >"$queue/scheduler"
without=$(three)
echo "$before" >"$queue/scheduler"
"$dwell" tune "$flat" --window 500ms --database "$work/learned" --runtime "$runtime" --seed 1 >"$work/flat-decisions" 2>"$work/flat-summary" &
tuner=$!
# shellcheck disable=SC2086
fio $load --runtime=60 >/dev/null &
asked=$!
for _ in $(seq 600); do grep -q 'using none' "$work/flat-decisions" && break; sleep 0.1; done
rest=$(grep -n 'using none' "$work/flat-decisions" | head -n1 | cut -d: -f1)
kill $asked 2>/dev/null; wait $asked 2>/dev/null
with=$(three)
chosen=$(in_use "$queue")
switches=$(sed -n "$((${rest:-0} + 1)),\$p" "$work/flat-decisions" | grep -c 'switch took')
asked=$(grep -c 'testing again' "$work/flat-decisions")
kill -INT $tuner; wait $tuner; tuner=
echo none >"$queue/scheduler"
again=$(three)
echo "nothing matters: at rest after ${rest:-never} windows of 500 ms, $before before, $chosen chosen; $switches switches after that, asked again $asked times"
echo "IOPS under none: without the tuner $without, with it at rest $with, without again $again"
grep 'windows,' "$work/flat-summary" | tail -n1
[ -n "${KEEP:-}" ] && cp "$work/flat-decisions" "$work/flat-summary" "$KEEP/"
exit 0
