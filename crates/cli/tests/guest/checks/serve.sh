# A disk of the guest behind Dwell's schedulers.

through() {
    local elevator=$1 server device
    begins_with "$elevator" sda
    served "serving /dev/sda" dwell serve /dev/sda --attach --control control --scheduler 'stream(deadline)'
    same "$(scheduler "${device#/dev/}")" none
    same "$(<"/sys/block/${device#/dev/}/queue/rotational")" 1
    expect "io_uring" <(dwell ctl control show)
    mkfs.ext4 -q "$device"
    mkdir here
    mount "$device" here
    cp /usr/bin/dwell here
    dwell ctl control switch cfq
    sync -f here
    umount here
    mount "$device" here
    cmp /usr/bin/dwell here/dwell
    umount here
    is_set sda "$elevator"
    kill $server
    ends $server 0
    same "$(losetup -l)$(grep dwell /proc/mounts || true)" ""
    # The kernel's own page cache of the disk is of before.
    blockdev --flushbufs /dev/sda
    e2fsck -fn /dev/sda
}

partition() {
    local server device
    printf 'label: dos\n,100M\n,100M\n' | sfdisk -q /dev/sda
    udevadm settle
    served "serving /dev/sda2" dwell serve /dev/sda2 --attach
    mkfs.ext4 -q "$device"
    refused 5 "held by another" dwell serve /dev/sda --nbd unix:other
    kill $server
    ends $server 0
    blockdev --flushbufs /dev/sda2
    e2fsck -fn /dev/sda2
    wipefs -q -a /dev/sda2 /dev/sda
}

in_use() {
    mkfs.ext4 -q /dev/sda
    mkdir here
    mount /dev/sda here
    refused 5 "mounted at" dwell serve /dev/sda --attach
    umount here
    dmsetup create linear --table "0 100000 linear /dev/sda 0"
    refused 5 "held by dm-" dwell serve /dev/sda --attach
    dmsetup remove --retry linear
}

tuned() {
    local server device tuner
    served "serving /dev/sda" dwell serve /dev/sda --attach --control control --scheduler deadline
    reads "$device"
    dwell tune "$device" --control control --arm cfq --arm noop --window 1s --database learned >tuner.log 2>&1 &
    tuner=$!
    until_true grep -q "the switch took" tuner.log || { cat tuner.log && return 1; }
    kill $tuner
    ends $tuner 0
    expect "scheduler: deadline" <(dwell ctl control show)
    reads_no_more
    kill $server
    ends $server 0
}

# By the kernel's own switch, where it has one (since 6.6).
no_uring() {
    local server device
    sysctl -q kernel.io_uring_disabled=2
    served "io_uring is refused" dwell serve /dev/sda --attach --control control
    sysctl -q kernel.io_uring_disabled=0
    expect "threads" <(dwell ctl control show)
    mkfs.ext4 -q "$device"
    e2fsck -fn "$device"
    kill $server
    ends $server 0
}

for elevator in none mq-deadline bfq; do check "attached, over $elevator: ext4" through $elevator; done
begins_with mq-deadline sda
check "a partition" partition
check "what is mounted or held is refused" in_use
check "tuned by its control socket, and put back" tuned
if [ -e /proc/sys/kernel/io_uring_disabled ]; then check "io_uring refused by sysctl: said, by threads" no_uring; fi
wipefs -q -a /dev/sda
