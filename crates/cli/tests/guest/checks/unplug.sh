# A disk is taken away while it is looked at, tuned, measured or served; and comes back.

# Neither notes of what was set, nor a status, nor instances of the kernel's tracer.
nothing_left() { same "$(find /run/dwell /sys/kernel/tracing/instances . -mindepth 1 -name '*.json' -o -path '*/instances/*')" ""; }

pulled_from_tuner() {
    reads /dev/sdb
    tunes /dev/sdb sdb
    pull
    loses sdb
    nothing_left
    plug
    reads /dev/sdb
    tunes /dev/sdb sdb
    kill $tuner
    ends $tuner 0
    is_set sdb mq-deadline
}

# At rest it looks at the kernel's counters only.
idle() {
    attends /dev/sdb sdb
    pull
    loses sdb
    nothing_left
}

pulled_from_linear() {
    dmsetup create linear --table "0 100000 linear /dev/sdb 0"
    attends /dev/mapper/linear sdb
    pull
    loses sdb
    nothing_left
    refused 2 "no queue below it" dwell tune /dev/mapper/linear --for 1s
    dmsetup remove --retry linear
}

watches() { readlink "/proc/$1/fd/"* | grep -q 'bpf\|trace_pipe'; }

pulled_from() {
    local watcher
    reads /dev/sdb
    "$@" >said 2>&1 &
    watcher=$!
    until_true watches $watcher
    sleep 1
    pull
    ends $watcher 1
    cat said
    expect "the device was removed" said
    nothing_left
}

recording() {
    pulled_from dwell record /dev/sdb --backend "$1" -o trace
    dwell trace info trace >info
    grep -E 'reads: [1-9]' info
}

profiling() {
    dwell profile /dev/sdb -o profile.toml >said 2>&1 &
    local profile=$!
    until_true grep -q throughput said
    pull
    ends $profile 1
    cat said
    not grep cannot said
    test ! -e profile.toml
}

# What a killed tuner noted was of the disk that is gone, and is not set of one that has its name.
another() {
    reads /dev/sdb
    tunes /dev/sdb sdb
    kill -KILL $tuner
    ends $tuner 137
    pull
    plug
    begins_with bfq sdb
    dwell tune /dev/sdb --window 1s --for 2s --arm bfq --arm none --database learned >tuner.log 2>&1
    expect "nothing to restore" tuner.log
    is_set sdb bfq
}

serving() {
    local server
    dwell serve /dev/sdb --nbd unix:socket "$@" >served 2>said &
    server=$!
    until_true grep -q serving said
    pull
    ends $server 1
    expect "/dev/sdb: the device was removed" said
    test ! -e socket
    same "$(losetup -l)" ""
    not grep dwell /proc/mounts
}

mounted() {
    local server device
    dwell serve /dev/sdb --attach >served 2>said &
    server=$!
    until_true grep -q serving said
    device=$(<served)
    mkfs.ext4 -q "$device"
    mkdir here
    mount "$device" here
    pull
    until_true grep -q "still in use" said
    not eval 'echo some >here/file && sync here/file'
    umount here
    ends $server 1
    same "$(losetup -l)" ""
}

virtio() {
    local place
    place=$(realpath /sys/block/vdc/device/..)
    reads /dev/vdc
    tunes /dev/vdc vdc
    echo 1 >"$place/remove"
    loses vdc
    nothing_left
    echo 1 >/sys/bus/pci/rescan
    until_true test -b /dev/vdc
}

# However a check ended, the next one finds the disk there, under its scheduler, and nobody else.
pulling() {
    check "$@"
    plug >/dev/null
    wipefs -q -a /dev/sdb
    rm -rf /run/dwell
}

pulling "tuner: said, ended, nothing left; begins again with the disk" pulled_from_tuner
pulling "tuner of an idle disk" idle
pulling "tuner of a dm-linear over the disk" pulled_from_linear
pulling "tuner of a virtio-blk disk" virtio
pulling "adviser" pulled_from dwell advise /dev/sdb --window 1s --windows 100
pulling "recorder, by BPF: what was recorded is kept" recording bpf
pulling "recorder, by tracefs: what was recorded is kept" recording tracefs
pulling "profile" profiling
pulling "what a killed tuner noted is not set of another disk" another
pulling "server, by NBD" serving
pulling "server, attached" serving --attach
pulling "server, attached and mounted: until it is let go" mounted
