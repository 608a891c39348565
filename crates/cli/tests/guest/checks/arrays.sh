# md on members that dwell serves: every level, a failed member, its replacement and rebuild, a scrub, and what is left at the end.

. checks/array-functions

# level LEVEL MEMBERS NAME OPTIONS...: created, recognised, written and read.
level() {
    members "$2"
    creates "$1" "${@:4}"
    until_true describes "$3"
    until_true describes "coordinated"
    fills
    verifies
    ends_array
}

# A member fails, is replaced by an empty disk and rebuilt while a program reads and writes; then a scrub finds no difference.
rebuilds() {
    members "$2"
    creates "$1" "${@:3}"
    until_true is_idle
    fills
    dwell ctl array.ctl member fail 1
    mdadm --quiet /dev/md9 --fail "${loops[1]}" || true
    verifies
    until_true mdadm --quiet /dev/md9 --remove failed
    truncate -s 48M replacement
    loops[1]=$(dwell ctl array.ctl member replace 1 replacement)
    mdadm --quiet /dev/md9 --add "${loops[1]}"
    (while dd if=files/data of=/dev/null bs=64k iflag=direct status=none; do sleep 0.2; done) &
    until_true eval '[ "$(cat /sys/block/md9/md/degraded)" = 0 ]'
    until_true is_idle
    kill -KILL -- "-$!"
    verifies
    echo check >/sys/block/md9/md/sync_action
    until_true is_idle
    same "$(cat /sys/block/md9/md/mismatch_cnt)" 0
    dwell ctl array.ctl array
    ends_array
}

# lvm_volume LAYOUT MEMBERS OPTIONS...: a volume of LVM on members; a mirrored one loses a member and keeps its file.
lvm_volume() {
    members "$2" "$1"
    pvcreate --quiet --yes "${loops[@]}"
    vgcreate --quiet served "${loops[@]}"
    lvcreate --quiet --yes --name data --size 24M "${@:3}" served
    udevadm settle
    until_true describes "coordinated"
    fills /dev/served/data
    verifies
    if [ "$1" = raid1 ]; then
        dwell ctl array.ctl member fail 1
        head -c 4M files/data >files/again
        sync
        verifies
        cmp -n 4M files/data files/again
        # An empty disk takes the place of the failed one. The volume is complete again, and no copy differs.
        truncate -s 48M replacement
        loops[1]=$(dwell ctl array.ctl member replace 1 replacement)
        pvcreate --quiet --yes "${loops[1]}"
        vgextend --quiet served "${loops[1]}"
        lvconvert --quiet --yes --repair served/data "${loops[1]}"
        vgreduce --quiet --removemissing served
        until_true eval '[ "$(lvs --noheadings --options sync_percent served/data | tr -d " ")" = 100.00 ]'
        lvchange --syncaction check served/data
        until_true eval '[ "$(lvs --noheadings --options raid_sync_action served/data | tr -d " ")" = idle ]'
        same "$(lvs --noheadings --options raid_mismatch_count served/data | tr -d ' ')" 0
        verifies
        cmp -n 4M files/data files/again
    fi
    umount files
    vgchange --quiet --activate n served
    kill "$server"
    ends "$server" 0
}

# The tuner gives all members the same policies, and at the end the one that they had.
tunes_members() {
    members 3
    creates 0 --chunk=64
    until_true describes "coordinated"
    arms() { dwell ctl "array.ctl.$1" show --json | jq -r .scheduler; }
    mapfile -t before < <(arms 0)
    dwell tune /dev/md9 --control array.ctl --window 1s --arm noop --arm deadline --database learned >tuner.log 2>&1 &
    tuner=$!
    reads /dev/md9
    until_true eval '[[ "$(arms 0) $(arms 1) $(arms 2)" =~ ^(noop noop noop|deadline.* deadline.* deadline.*)$ ]]' ||
        { cat tuner.log && return 1; }
    reads_no_more
    kill -INT "$tuner"
    ends "$tuner" 0
    same "$(arms 2)" "${before[0]}"
    mdadm --stop /dev/md9
    kill "$server"
    ends "$server" 0
}

# The advice names the array and each of its members.
advises() {
    local loop
    members 3
    creates 5 --chunk=64 --assume-clean
    reads /dev/md9
    dwell advise /dev/md9 --window 1s --windows 2 >advice
    reads_no_more
    cat advice
    for loop in md9 "${loops[@]#/dev/}"; do grep -qw "$loop" advice; done
    grep -q '^recommendation: ' advice
    mdadm --stop /dev/md9
    kill "$server"
    ends "$server" 0
}

# names_socket DEVICE EXPECTED: without --control, tune and advise print the device and the socket to name instead.
names_socket() {
    local socket
    socket=$(realpath array.ctl)
    dwell advise "$1" --window 1s --windows 1 >advice 2>&1 || true
    expect "is a member of an array that dwell serves" advice
    expect "name the array and its socket: $2 --control $socket" advice
    dwell tune "$1" --window 1s --arm none --arm bfq --database learned >tuner.log 2>&1 &
    tuner=$!
    until_true grep -qF "name the array and its socket: $2 --control $socket" tuner.log || { cat tuner.log && return 1; }
    kill -INT "$tuner"
    ends "$tuner" 0
}

# is_tuned DEVICE: all members get the arms together.
is_tuned() {
    arms() { dwell ctl "array.ctl.$1" show --json | jq -r .scheduler; }
    dwell tune "$1" --control array.ctl --window 1s --arm noop --arm deadline --database "learned-${1##*/}" >tuner.log 2>&1 &
    tuner=$!
    reads "$1"
    until_true eval '[[ "$(arms 0) $(arms 1) $(arms 2)" =~ ^(noop noop noop|deadline.* deadline.* deadline.*)$ ]]' ||
        { cat tuner.log && return 1; }
    reads_no_more
    kill -INT "$tuner"
    ends "$tuner" 0
}

# What is above the members is found by the name of a member, of md, and of a volume of LVM or device mapper on md.
is_named() {
    local name
    members 3
    creates 5 --chunk=64 --assume-clean
    until_true describes "coordinated"
    # A member is named: md holds it. md is named: it is the device.
    reads /dev/md9
    names_socket "${loops[0]}" /dev/md9
    names_socket /dev/md9 /dev/md9
    reads_no_more
    is_tuned /dev/md9
    pvcreate --quiet --yes /dev/md9
    vgcreate --quiet onmd /dev/md9
    lvcreate --quiet --yes --name data --size 24M onmd
    dmsetup create linear --table "0 40960 linear /dev/onmd/data 0"
    udevadm settle
    for name in onmd/data mapper/linear; do
        reads "/dev/$name"
        names_socket "/dev/$name" "$(realpath "/dev/$name")"
        dwell advise "/dev/$name" --control array.ctl --window 1s --windows 2 >advice 2>&1
        grep -q '^recommendation: ' advice || { cat advice && return 1; }
        reads_no_more
        is_tuned "/dev/$name"
    done
    # A member of this array is no member of another one, and its socket is that of one member.
    refused 2 "is on 3 members" dwell tune /dev/mapper/linear --control array.ctl.1 --window 1s
    dmsetup remove linear
    vgchange --quiet --activate n onmd
    mdadm --stop /dev/md9
    kill "$server"
    ends "$server" 0
}

# Without md: LVM's volume holds the members.
is_named_by_lvm() {
    members 3 raid0:64k
    pvcreate --quiet --yes "${loops[@]}"
    vgcreate --quiet served "${loops[@]}"
    lvcreate --quiet --yes --name data --size 24M --stripes 3 --stripesize 64k served
    udevadm settle
    reads /dev/served/data
    names_socket "${loops[0]}" "$(realpath /dev/served/data)"
    reads_no_more
    is_tuned /dev/served/data
    vgchange --quiet --activate n served
    kill "$server"
    ends "$server" 0
}

# scrubs: prints the requests that the members have received during a scrub, and those that were recognised.
scrubs() {
    local requests=0 recognised number reads
    recognised=$(dwell ctl array.ctl array --json | jq .background)
    for number in 0 1 2; do
        reads=$(dwell ctl "array.ctl.$number" show --json | jq .operations.read.done)
        requests=$((requests - reads))
    done
    echo check >/sys/block/md9/md/sync_action
    for number in {1..4}; do until_true is_idle && break; done
    for number in 0 1 2; do
        reads=$(dwell ctl "array.ctl.$number" show --json | jq .operations.read.done)
        requests=$((requests + reads))
    done
    echo "$requests $(($(dwell ctl array.ctl array --json | jq .background) - recognised))"
}

# md reports a scrub before its first request: nearly all are recognised, also the first ones, of 4 KiB.
scrub_is_recognised() {
    local requests recognised
    size=96M
    members 3
    creates 5 --chunk=64 --assume-clean
    until_true describes "coordinated"
    read -r requests recognised <<<"$(scrubs)"
    echo "RAID 5, scrub of 96 MB of each of 3 members: $recognised of $requests requests recognised" >/tmp/figures-scrub
    [ $((100 * recognised)) -ge $((95 * requests)) ]
    mdadm --stop /dev/md9
    kill "$server"
    ends "$server" 0
}

check "RAID 0 on served members" level 0 3 "raid0 of 3 members, stripe unit 64 KiB" --chunk=64
check "RAID 1 on served members" level 1 2 "raid1 of 2 members"
check "RAID 5 on served members" level 5 3 "raid5 of 3 members, stripe unit 64 KiB" --chunk=64
check "RAID 6 on served members" level 6 4 "raid6 of 4 members, stripe unit 64 KiB" --chunk=64
check "RAID 10 on served members" level 10 4 "raid10 of 4 members, stripe unit 64 KiB" --chunk=64
check "RAID 5: a failed member, rebuild, scrub" rebuilds 5 3 --chunk=64
check "RAID 1: a failed member, rebuild, scrub" rebuilds 1 2
check "an array and its members are advised" advises
check "an array is tuned as one device" tunes_members
check "md, LVM and dm on an array: by name" is_named
check "LVM on members: by name" is_named_by_lvm
check "RAID 5: a scrub's requests are recognised" scrub_is_recognised
check "LVM: a striped volume on served members" lvm_volume raid0:64k 3 --stripes 3 --stripesize 64k
check "LVM: a mirrored volume loses a member and is repaired" lvm_volume raid1 2 --type raid1 --mirrors 1
cat /tmp/figures-scrub
