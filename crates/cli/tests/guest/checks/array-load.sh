# Measures, and is no part of all: md's RAID 0 and RAID 5 on drives that the host emulates and serves (`run` has them), under the guest's
# schedulers with the host's members on noop, and under none with members that are coordinated.

modprobe -a raid0 raid456
plain=(/dev/vd{d..h}) striped=(/dev/vd{i..m}) parity=(/dev/vd{n..r})
figures=/tmp/figures
: >$figures

fio() { LD_LIBRARY_PATH=/dwell/fio /dwell/fio/fio --output-format=json "$@"; }

# under SCHEDULER DISK...
under() {
    local disk
    for disk in "${@:2}"; do echo "$1" >"/sys/block/${disk#/dev/}/queue/scheduler"; done
}

assembles() { mdadm --create /dev/md9 --run --quiet --metadata=1.2 --chunk=64 --raid-devices=5 "$@" && udevadm settle; }

gives_back() {
    mdadm --quiet --stop /dev/md9
    mdadm --quiet --zero-superblock "$@"
}

# The share of the guest's processor time that was idle, since the last call.
idle() {
    local _ user nice system idle wait rest all
    read -r _ user nice system idle wait rest </proc/stat
    all=$((user + nice + system + idle + wait))
    echo $((100 * (idle + wait - idle_before) / (all - all_before + 1)))
    idle_before=$((idle + wait)) all_before=$all
}
idle_before=0 all_before=0

# in_order WHAT READERS: each in order, two windows of two rows ahead.
in_order() {
    local rate
    idle >/dev/null
    rate=$(fio --name=r --filename=/dev/md9 --direct=1 --ioengine=libaio --bs=640k --iodepth=2 --rw=read --numjobs="$2" \
        --offset_increment=200g --size=100g --time_based --runtime=10 --group_reporting | jq '.jobs[0].read.bw_bytes / 1e6 | round')
    echo "$1: $2 readers: $rate MB/s, processors $(idle)% idle" >>$figures
}

is_idle() { [ "$(cat /sys/block/md9/md/sync_action)" = idle ]; }

# beside WHAT: random readers until md is idle, and how long that was.
beside() {
    local began=$EPOCHREALTIME ended reader
    fio --name=f --filename=/dev/md9 --direct=1 --ioengine=psync --bs=4k --rw=randread --numjobs=2 --thinktime=20ms --time_based \
        --runtime=120 --group_reporting --output=foreground &
    reader=$!
    for _ in {1..500}; do
        ! is_idle || break
        sleep 0.25
    done
    ended=$EPOCHREALTIME
    pkill -INT -x fio
    wait $reader || true
    echo "$1: $(jq -r '.jobs[0].read | "\(.total_ios) reads, mean \(.lat_ns.mean / 1e4 | round / 100) ms, p99 \(.clat_ns.percentile["99.000000"] / 1e4 | round / 100) ms, longest \(.lat_ns.max / 1e6 | round) ms"' <(sed -n '/^{/,$p' foreground)), done after $(((${ended/./} - ${began/./}) / 100000)) tenths of a second" >>$figures
}

par_read() {
    local -n disks=$3
    under "$2" "${disks[@]}"
    assembles --level=0 "${disks[@]}"
    in_order "$1" 4
    in_order "$1" 1
    gives_back "${disks[@]}"
}

scrub_and_rebuild() {
    local -n disks=$3
    under "$2" "${disks[@]}"
    assembles --level=5 --size=98304 --assume-clean "${disks[@]}"
    # md's own throttle would decide otherwise.
    echo 200000 >/sys/block/md9/md/sync_speed_min
    sleep 2
    echo check >/sys/block/md9/md/sync_action
    beside "$1: scrub"
    mdadm --quiet /dev/md9 --fail "${disks[1]}"
    until_true mdadm --quiet /dev/md9 --remove "${disks[1]}"
    mdadm --quiet --zero-superblock "${disks[1]}"
    mdadm --quiet /dev/md9 --add "${disks[1]}"
    until_true not is_idle
    beside "$1: rebuild"
    gives_back "${disks[@]}"
}

for round in 1 2; do
    check "par-read under mq-deadline ($round)" par_read "mq-deadline, members noop" mq-deadline plain
    check "par-read under bfq ($round)" par_read "bfq, members noop" bfq plain
    check "par-read under none, coordinated ($round)" par_read "none, coordinated" none striped
    check "par-read under none ($round)" par_read "none, members noop" none plain
done
cat $figures && : >$figures
for round in 1 2; do
    check "scrub and rebuild under mq-deadline ($round)" scrub_and_rebuild "mq-deadline, members noop" mq-deadline plain
    check "scrub and rebuild under bfq ($round)" scrub_and_rebuild "bfq, members noop" bfq plain
    check "scrub and rebuild under none, coordinated ($round)" scrub_and_rebuild "none, coordinated" none parity
done
cat $figures
