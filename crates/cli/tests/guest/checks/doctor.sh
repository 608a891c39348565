# `dwell doctor` from a unit or a container to the disk: what it reports of real units is printed at the end.

# writer NAME KEY=VALUE...: a unit that writes to /srv, and always has a file open there.
writer() {
    local name=$1
    shift
    printf '%s\n' '[Service]' "$@" \
        "ExecStart=/bin/sh -c 'exec 3>/srv/open; while :; do dd if=/dev/zero of=/srv/$name bs=64k count=8 conv=notrunc,fsync status=none; sleep 0.2; done'" \
        >"/run/systemd/system/$name.service"
    systemctl daemon-reload
    systemctl restart "$name"
    until_true test -s "/srv/$name"
}

# doctored TITLE TARGET: what the doctor prints, also for the report.
doctored() {
    dwell doctor "$2" >printed
    cat printed
    { echo && echo "$1: dwell doctor $2" && cat printed; } >>/tmp/doctor
}

mapped() {
    pvcreate -q /dev/sda
    vgcreate -q store /dev/sda
    lvcreate -q -n data -L 96M -Wn -Zn store
    udevadm settle
    mkfs.ext4 -q /dev/store/data
    mount /dev/store/data /srv
}

mirrored() {
    mdadm --create /dev/md0 --run --quiet --level=1 --raid-devices=2 --assume-clean /dev/sda /dev/sdb
    udevadm settle
    mkfs.ext4 -q /dev/md0
    mount /dev/md0 /srv
}

# The kernel counts the unit's requests for the volume and for the disk, and one path has both.
weight_on_volume() {
    mapped
    writer db IOWeight=500 'IODeviceLatencyTargetSec=/srv 25ms' IOSchedulingClass=idle
    begins_with none sda
    doctored "a unit on LVM" db.service
    same "$(grep -c '> /srv (ext4) > ' printed)" 1
    expect "cgroup system.slice/db.service > /srv (ext4) > dm-" printed
    expect "PROBLEM (weight): system.slice/db.service: its weight has no effect on sda: none ignores weights, and io.cost is off" printed
    expect "PROBLEM (latency): /run/systemd/system/db.service: IODeviceLatencyTargetSec=/srv 25ms has no effect" printed
    expect "PROBLEM (ionice): /run/systemd/system/db.service: IOSchedulingClass=idle has no effect: none on sda" printed
    begins_with bfq sda
    dwell doctor db.service >printed
    not grep -q 'PROBLEM.* on sda' printed
}

# systemd sets the limit of a directory on LVM for the disk below, and applies a changed file when it reloads.
limits_on_volume() {
    mapped
    begins_with none sda
    writer db 'IOWriteBandwidthMax=/srv 50M' 'IOReadIOPSMax=/dev/nosuch 100' 'IOWriteIOPSMax=/dev/sdb 100'
    mkdir /run/systemd/system/db.service.d
    printf '%s\n' '[Service]' 'IOReadBandwidthMax=/srv 5M' >/run/systemd/system/db.service.d/read.conf
    doctored "limits of a unit on LVM" db.service
    expect "note (limit): system.slice/db.service: writes on sda are limited to 50.0 MB/s (wbps=50000000 in io.max)" printed
    expect "PROBLEM (limit): /run/systemd/system/db.service: IOReadIOPSMax=/dev/nosuch 100 has no effect: /dev/nosuch: there is no such device or file" printed
    expect "PROBLEM (limit): /run/systemd/system/db.service: IOWriteIOPSMax=/dev/sdb 100 has no effect on dm-0: it is for sdb" printed
    expect "PROBLEM (limit): /run/systemd/system/db.service.d/read.conf: IOReadBandwidthMax=/srv 5M is not applied: io.max of system.slice/db.service has no limit for sda" printed
    systemctl daemon-reload
    dwell doctor db.service >printed
    expect "note (limit): system.slice/db.service: reads on sda are limited to 5.00 MB/s" printed
    not grep -q 'is not applied' printed
    systemctl set-property db.service IOWriteBandwidthMax=
    dwell doctor db.service >printed
    not grep -q 'writes on sda are limited' printed
}

# A weight divides a share among siblings, and the competitor is in another slice.
weight_below_its_slice() {
    mapped
    begins_with bfq sda
    writer db IOWeight=500 Slice=shop.slice
    doctored "a weight at the wrong level" db.service
    expect "PROBLEM (weight): shop.slice/db.service is the only group in shop.slice" printed
    expect "set the weight of shop.slice" printed
    systemctl set-property --runtime shop.slice IOWeight=500
    dwell doctor shop.slice >printed
    not grep -q 'PROBLEM (weight)' printed
}

controller_off() {
    mapped
    begins_with bfq sda
    printf '%s\n' '[Slice]' 'DisableControllers=io' >/run/systemd/system/shop.slice
    writer db IOWeight=500 Slice=shop.slice
    doctored "a slice without the io controller" db.service
    expect "PROBLEM (weight): the io controller is not enabled for shop.slice/db.service by shop.slice; IOWeight=500" printed
    expect "remove DisableControllers=io of shop.slice" printed
    not grep -q io.bfq.weight printed
}

# A property set at run time is in a file of systemd's own.
weight_of_an_array() {
    mirrored
    begins_with bfq sda
    begins_with none sdb
    writer db
    systemctl set-property --runtime db.service IOWeight=500
    doctored "a unit on RAID 1" db.service
    same "$(grep -c '> /srv (ext4) > ' printed)" 1
    expect "> /srv (ext4) > md0" printed
    expect "md0: its members have different schedulers, bfq (sda), none (sdb)" printed
    expect "its weight has no effect on sdb: none ignores weights" printed
    not grep -q "no effect on sda" printed
}

# Debian 12's crun writes the weight only into a group inside the container's own (crun#1572), Debian 13's into both.
container() {
    local id
    mapped
    begins_with bfq sda
    mkdir -p box/bin box/srv
    cp /usr/bin/busybox box/bin/busybox
    ln -s busybox box/bin/sh
    tar -C box -c . | podman import - box
    id=$(podman run -d --network=none --blkio-weight=500 -v /srv:/srv box /bin/sh -c \
        'while :; do busybox dd if=/dev/zero of=/srv/box bs=64k count=8 conv=fsync; busybox sleep 0.2; done')
    until_true test -s /srv/box
    sleep 2
    find /sys/fs/cgroup -name 'libpod*' -o -name '*bfq.weight' -path '*libpod*' -exec grep -H . {} +
    doctored "a container" "${id:0:12}"
    expect "> /srv (ext4) > dm-" printed
    if grep -q 500 "/sys/fs/cgroup/machine.slice/libpod-$id.scope/io.bfq.weight"; then
        expect "PROBLEM (weight): machine.slice/libpod-$id.scope is the only group in machine.slice" printed
    else
        expect "PROBLEM (weight): the weight is set for machine.slice/libpod-$id.scope/container, which has no siblings" printed
    fi
    podman rm -f -t 0 "$id"
}

# However a check ended, the next one finds the disks as they were.
doctor() {
    check "$@"
    systemctl stop db shop.slice
    podman rm -fa -t 0
    umount /srv
    vgchange -q -an
    mdadm --stop --scan
    rm -rf /run/systemd/system/{db.service*,shop.slice*} /run/systemd/system.control \
        /etc/systemd/system.control/db.service.d
    systemctl daemon-reload
    wipefs -q -a /dev/sda /dev/sdb
    udevadm settle
    begins_with mq-deadline sda
    begins_with mq-deadline sdb
}

doctor "doctor: a unit's weight, latency target and class on LVM" weight_on_volume
doctor "doctor: limits of a unit on LVM" limits_on_volume
doctor "doctor: a weight below a slice without siblings" weight_below_its_slice
doctor "doctor: a slice that disables the io controller" controller_off
doctor "doctor: a unit on an array whose members differ" weight_of_an_array
doctor "doctor: a container of podman" container
sed 's/^/    /' /tmp/doctor
