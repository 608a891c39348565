# The kernel's own NBD client.

# up SOCKET OPTIONS...: a server ($server) of ./disk.
up() {
    local socket=$1
    shift
    [ -e disk ] || truncate -s 64M disk
    dwell serve disk --nbd "unix:$socket" "$@" >/dev/null 2>said &
    server=$!
    until_true grep -q serving said
}
connect() { nbd-client -unix "$PWD/socket" /dev/nbd0 "$@"; }
disconnect() { nbd-client -d /dev/nbd0; }

filesystem() {
    local sum
    up socket
    connect "$@"
    same "$(blockdev --getsize64 /dev/nbd0)" $((64 << 20))
    same "$(cat /sys/block/nbd0/queue/{write_cache,fua} | tr '\n' ' ')" "write back 1 "
    mkfs.ext4 -q /dev/nbd0
    mkdir here
    mount /dev/nbd0 here
    cp /usr/bin/dwell here
    sync -f here
    umount here
    e2fsck -fn /dev/nbd0
    mount /dev/nbd0 here
    cmp /usr/bin/dwell here/dwell
    fstrim -v here
    umount here
    disconnect
    kill $server
    ends $server 0
    test ! -e socket
    e2fsck -fn disk
}

readable() {
    up socket
    connect -C 4
    dd if=/usr/bin/dwell of=/dev/nbd0 bs=1M count=16 oflag=direct conv=fsync status=none
    cmp -n $((16 << 20)) /usr/bin/dwell /dev/nbd0
    cmp -n $((16 << 20)) /usr/bin/dwell disk
    dwell record /dev/nbd0 --for 1s -o trace
    disconnect
}

# Whoever reads gets an error. What was flushed is there, behind the server that takes the place of the one that was killed.
killed() {
    local reader
    up socket
    connect -C 2 -timeout 5
    dd if=/usr/bin/dwell of=/dev/nbd0 bs=1M count=16 oflag=direct conv=fsync status=none
    while dd if=/dev/nbd0 of=/dev/null bs=16k iflag=direct status=none; do :; done &
    reader=$!
    sleep 1
    kill -KILL $server
    ends $server 137
    until_true test ! -e "/proc/$reader/exe"
    disconnect
    up socket
    connect
    cmp -n $((16 << 20)) /usr/bin/dwell /dev/nbd0
    disconnect
    kill $server
    ends $server 0
}

tuned() {
    local before
    up socket
    connect
    before=$(scheduler nbd0)
    reads /dev/nbd0
    tunes /dev/nbd0 nbd0
    kill $tuner
    ends $tuner 0
    is_set nbd0 "$before"
    reads_no_more
    disconnect
}

tuned_away() {
    up socket
    connect
    attends /dev/nbd0 nbd0
    disconnect
    loses nbd0
}

many() {
    local each
    up socket
    for each in 0 1 2; do nbd-client -unix "$PWD/socket" /dev/nbd$each; done
    for each in 0 1 2; do dd if=/dev/nbd$each of=/dev/null bs=64k count=100 iflag=direct status=none & done
    wait %2 %3 %4
    for each in 0 1 2; do nbd-client -d /dev/nbd$each; done
    kill $server
    ends $server 0
}

check "ext4 made, filled, checked and trimmed" filesystem
check "ext4 over four connections" filesystem -C 4
check "what is written is there, read by the kernel and in the file" readable
check "three devices on one server at once" many
check "server killed: an error, and all that was flushed behind the next one" killed
check "the client's own queue is tuned, and put back" tuned
check "disconnected while it is tuned: said, ended" tuned_away
