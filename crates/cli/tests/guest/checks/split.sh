# Split-level scheduling where ext4, XFS and btrfs are modules: the limit of a program holds, and what is charged to it is what it wrote.

# The server's state in `state`. On a busy host it may take longer to answer than the seconds for which `ctl` waits.
asked() { dwell ctl control show --json >state; }

# The number of a field of the account.
account() { until_true asked >&2 && jq -e ".accounts[] | select(.name == \"limited\") | .$1" state; }

# At least so many bytes are charged to it, and none are dirty.
is_written() { [ "$(account caused)" -ge "$1" ] && [ "$(account dirty)" = 0 ]; }

# serves SCHEDULER FILESYSTEM: a file of the guest, mounted at here ($server, $device).
serves() {
    truncate -s 400M image
    served "serving" dwell serve image --attach --causes --control control --scheduler "$1"
    "mkfs.$2" -q "$device"
    mkdir here
    mount "$device" here
    touch here/file
}

# runs OPTIONS SCRIPT: in the account, which exists until it ends ($program); `written` exists when the script has ended.
runs() {
    local script=$2
    # shellcheck disable=SC2086 # options
    dwell exec --control control --account limited $1 -- sh -c "$script && touch written; while [ ! -e checked ]; do sleep 0.2; done" &
    program=$!
    until_true test -e written
    sync -f here
}

# ends_with BYTES: so many are charged, and as data at most a quarter more.
ends_with() {
    until_true is_written "$1"
    jq -c .accounts state
    [ "$(account data)" -lt $(($1 * 5 / 4)) ]
    same "$(jq .scheduler_faults state)" 0
    touch checked
    wait $program
    umount here
    kill $server
    ends $server 0
    same "$(losetup -l)$(grep dwell /proc/mounts || true)" ""
}

# Six MB at one MB a second, of which the first second is free: large writes, and then pages of the folios that they made.
limited() {
    local server device program began
    serves split-token "$1"
    began=$(date +%s)
    runs "--rate 1M" 'dd if=/dev/zero of=here/file bs=1M count=5 conv=notrunc status=none && sync here/file &&
        dd if=/dev/zero of=here/file bs=4k count=250 seek=77 conv=notrunc status=none'
    [ $(($(date +%s) - began)) -ge 4 ]
    ends_with 6260000
}

# One page in each MiB is stored to, by a thread that is stopped meanwhile. Each large folio is charged as a whole, at most once in each round.
stores() {
    local server device program
    serves split-token ext4
    dd if=/dev/zero of=here/file bs=1M count=2 conv=notrunc,fsync status=none
    runs "--rate 1M" "python3 -c '
import mmap, os, time
map = mmap.mmap(os.open(\"here/file\", os.O_RDWR), 2 << 20)
for page in range(512):
    map[page << 12] = 1
    time.sleep(0.001)
'"
    ends_with 2097152
}

# A small writer is durable beside a large one.
durable() {
    local server device program
    serves split-deadline ext4
    dd if=/dev/zero of=here/large bs=1M count=30 status=none &
    runs "--fsync-deadline 100ms" \
        'for i in 1 2 3; do dd if=/dev/zero of=here/file bs=64k count=1 conv=notrunc,fsync status=none; done'
    ends_with 196608
}

# Its page cache is overwritten.
overwrites() {
    local server device program
    serves afq ext4
    runs "--weight 2" 'for i in 1 2; do dd if=/dev/zero of=here/file bs=256k count=16 conv=notrunc status=none; done'
    ends_with 4194304
}

for filesystem in ext4 xfs btrfs; do check "split-token: a limited program, $filesystem" limited $filesystem; done
check "split-token: stores to a mapped file" stores
check "split-deadline: a durable writer" durable
check "afq: pages that are overwritten" overwrites
