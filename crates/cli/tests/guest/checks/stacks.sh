# Partitions, device mapper, RAID: who is tuned, and what is recorded.

# followed DEVICE WAY DISK: what DEVICE is asked is put in order by DISK, which a tuner of DEVICE sets and puts back.
followed() {
    dwell advise "$1" --windows 1 --window 1s --json >advice
    # Newer kernels show no scheduler of what has none to choose.
    same "$(jq -r .stack advice | sed 's/ (none)//g')" "$2"
    reads "$1"
    tunes "$1" "$3"
    kill $tuner
    ends $tuner 0
    is_set "$3" mq-deadline
}

# recorded DEVICE HOW: of sda, and nothing outside of sda2.
recorded() {
    local start size
    start=$(</sys/block/sda/sda2/start) size=$(</sys/block/sda/sda2/size)
    reads "$1"
    dwell record "$1" --backend "$2" --for 2s -o trace
    awk -v first=$((start * 512)) -v end=$(((start + size) * 512)) '!/^#/ {
        all++
        if ($3 != "8,0" || $5 < first || $5 + $6 > end) print "elsewhere: " $0
        else right++
    } END { print all + 0 " requests"; exit all < 20 || all != right }' trace
}

maps() {
    local size
    size=$(</sys/block/sda/sda2/size)
    dmsetup create linear --table "0 $size linear /dev/sda2 0"
    echo secret | cryptsetup open --type plain --key-file - /dev/mapper/linear crypt
    udevadm settle
}

# A volume of two parts of one disk, and a thin one, which stands on its pool's data and on what the pool notes.
meets() {
    pvcreate -q /dev/sda1 /dev/sda2
    vgcreate -q group /dev/sda1 /dev/sda2
    lvcreate -q -n meta -L 4M -Wy -y group
    lvcreate -q -n pool -L 64M -Wn -Zn group
    lvcreate -q -n large -l 100%FREE -Wn -Zn group
    dmsetup create pool --table "0 131072 thin-pool /dev/group/meta /dev/group/pool 128 0"
    dmsetup message pool 0 create_thin 0
    dmsetup create thin --table "0 65536 thin /dev/mapper/pool 0"
    udevadm settle
    for volume in group-large thin; do
        dwell advise /dev/mapper/$volume --windows 1 --window 1s --json >advice
        jq -r .stack advice
        jq -r .stack advice | grep -q 'sda (mq-deadline)$'
    done
    dd if=/dev/zero of=/dev/mapper/thin bs=1M count=8 oflag=direct status=none
    reads /dev/mapper/thin
    tunes /dev/mapper/thin sda
    kill $tuner
    ends $tuner 0
}

arrays() {
    mdadm --create /dev/md0 --run --quiet --level=1 --raid-devices=2 --assume-clean /dev/sda1 /dev/sdb1
    mdadm --create /dev/md1 --run --quiet --level=0 --raid-devices=2 /dev/sda2 /dev/sdb2
    udevadm settle
}

# tunes_both DEVICE: begins a tuner of an array of both disks, and waits until it has set them alike.
tunes_both() {
    tunes "$1" sda
    until_true eval '[ "$(scheduler sda)" = "$(scheduler sdb)" ]'
}

# together DEVICE STACK: a tuner sets both disks of an array, and puts each back as it was.
together() {
    begins_with none sdb
    dwell advise "$1" --windows 1 --window 1s --json >advice
    same "$(jq -r .stack advice | sed 's/^\([^ ]*\) (none)/\1/')" "$2"
    same "$(jq -r .scheduler advice)" "mq-deadline (sda), none (sdb)"
    reads "$1"
    tunes_both "$1"
    dwell tune "$1" --status >status
    expect "tuned for bandwidth" status
    refused 2 "sdb: process $tuner tunes or measures it" dwell tune /dev/sdb --for 1s
    kill $tuner
    ends $tuner 0
    is_set sda mq-deadline && is_set sdb none
    begins_with mq-deadline sdb
}

# Somebody else sets one of two disks: theirs stays, the other one is put back.
overruled() {
    reads "$1"
    tunes_both "$1"
    begins_with kyber sdb
    ends $tuner 7
    expect "another process changed the scheduler" tuner.log
    is_set sda mq-deadline && is_set sdb kyber
    begins_with mq-deadline sdb
}

# What a tuner that is killed has set of both is put back by the next.
killed() {
    reads "$1"
    tunes_both "$1"
    kill -KILL $tuner
    ends $tuner 137
    dwell tune "$1" --window 1s --for 1s --database learned >tuner.log 2>&1
    expect "sda: restored after process" tuner.log
    expect "sdb: restored after process" tuner.log
    is_set sda mq-deadline && is_set sdb mq-deadline
}

profiled() {
    # Another part of one of its disks is in use.
    mkfs.ext4 -q /dev/md0
    mkdir used
    mount /dev/md0 used
    refused 2 "is mounted or held" dwell profile --each 100ms "$1" -o profile.toml
    umount used
    dwell profile --each 100ms "$1" -o profile.toml
    same "$(grep -c '^scheduler = ' profile.toml)" "$(wc -w </sys/block/sda/queue/scheduler)"
    is_set sda mq-deadline && is_set sdb mq-deadline
}

# A member of a mirror is pulled out: said, and the other one is put back. Then there is one disk.
degraded() {
    reads "$1"
    tunes_both "$1"
    pull
    loses sdb
    is_set sda mq-deadline
    until_true eval '! grep -q sdb /proc/mdstat || mdadm --quiet "$1" --fail detached --remove detached'
    tunes "$1" sda
    kill $tuner
    ends $tuner 0
    is_set sda mq-deadline
    plug
}

# Each member may have a tuner of its own.
members() {
    local first
    reads /dev/md1
    tunes /dev/sda sda
    first=$tuner
    mkdir other && cd other
    tunes /dev/sdb sdb
    kill $first $tuner
    ends $first 0
    ends $tuner 0
    is_set sda mq-deadline && is_set sdb mq-deadline
}

# here DEVICE WAY [OPTION]: DEVICE itself is recorded.
here() {
    local number
    number=$(lsblk -ndo MAJ:MIN "$1" | tr -d ' ' | tr : ,)
    reads "$1"
    dwell record "${@:3}" "$1" --backend "$2" --for 2s -o trace
    awk -v number="$number" '!/^#/ {
        all++
        if ($3 == number && $2 > 0) right++
        else print NR ": " $0
    } END { print right " of " all; exit all < 20 || all != right }' trace
}

measured() {
    dwell profile --here --each 100ms "$1" -o profile.toml
    expect 'scheduler = "none"' profile.toml
}

doubted() {
    dwell advise "$1" --windows 1 --window 1s >advice
    expect "virtual machine's disk" advice
}

nobody() {
    dmsetup create zero --table "0 1000 zero"
    refused 2 "no queue below it offers a choice" dwell tune /dev/mapper/zero --for 1s
    dmsetup remove --retry zero
}

for disk in /dev/sda /dev/sdb; do printf 'label: dos\n,100M\n,100M\n' | sfdisk -q $disk; done
udevadm settle
check "partition: its disk is tuned, and put back" followed /dev/sda2 "sda2 > sda (mq-deadline)" sda
check "partition: recorded are its disk's sectors, by BPF" recorded /dev/sda2 bpf
check "partition: recorded are its disk's sectors, by tracefs" recorded /dev/sda2 tracefs
check "partition of a disk of the host's: said that a choice may not matter" doubted /dev/sda2
check "dm-crypt over dm-linear: can be made here" maps
check "dm-crypt over dm-linear: the disk is tuned, and put back" \
    followed /dev/mapper/crypt "dm-1 > dm-0 > sda2 > sda (mq-deadline)" sda
check "dm-crypt over dm-linear: recorded are the disk's sectors" recorded /dev/mapper/crypt bpf
check "dm-linear itself recorded, by BPF" here /dev/mapper/linear bpf --here
check "dm-linear itself recorded, by tracefs" here /dev/mapper/linear tracefs --here
check "dm-linear itself measured" measured /dev/mapper/linear
dmsetup remove --retry crypt && dmsetup remove --retry linear
check "device mapper over nothing: said that nobody has a choice" nobody
check "RAID: can be made here" arrays
check "RAID 0: its disks are tuned as one, and each put back" together /dev/md1 "md1 > {sda2 > sda (mq-deadline), sdb2 > sdb (none)}"
check "RAID 0: a disk that somebody else sets stays so" overruled /dev/md1
check "RAID 0: a killed tuner's disks are put back by the next" killed /dev/md1
check "RAID 0: both disks have tuners of their own, and are put back" members
check "RAID 0 recorded, by BPF" here /dev/md1 bpf
check "RAID 0 recorded, by tracefs" here /dev/md1 tracefs
check "RAID 0 measured under each scheduler of its disks" profiled /dev/md1
check "RAID 1: its disks are tuned as one, and each put back" together /dev/md0 "md0 > {sda1 > sda (mq-deadline), sdb1 > sdb (none)}"
check "RAID 1: a disk is pulled out of it while it is tuned" degraded /dev/md0
mdadm --quiet --stop /dev/md0 /dev/md1
dmsetup create striped --table "0 100096 striped 2 128 /dev/sda1 0 /dev/sdb1 0"
check "dm-stripe: its disks are tuned as one, and each put back" \
    together /dev/mapper/striped "dm-0 > {sda1 > sda (mq-deadline), sdb1 > sdb (none)}"
dmsetup remove --retry striped
mdadm --zero-superblock /dev/sd[ab][12]
check "LVM over two partitions and a thin volume: the one disk is tuned" meets
{
    dmsetup remove --retry thin && dmsetup remove --retry pool && vgremove -f -y group
    wipefs -a /dev/sda1 /dev/sda2 /dev/sda /dev/sdb
    udevadm settle
} >/dev/null 2>&1
