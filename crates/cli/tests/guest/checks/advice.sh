# The configuration that `dwell advise` prints, pasted as a user does: udev, systemd and tuned apply it, and `dwell doctor` finds no fault.

# advised DEVICE OPTIONS...: what is printed beside readers of the device, in the file `advice`; what to paste in `rule`, `tuned` and `unit`.
advised() {
    reads "$1"
    dwell advise "$@" --window 2s --windows 2 >advice
    reads_no_more
    cat advice
    awk '/^to paste/ { file = "rule"; next } /^or keep it with tuned/ { file = "tuned"; next }
        /^or, for a load/ { file = "unit"; next } /^note:/ { file = "" } file { print >file }' advice
}

# pasted FILE: its lines, without those that revert them, in a shell that ends at the first error.
pasted() {
    sed '/^revert:/d; s/^set it:  //; /^keep it:$/d' "$1" >paste
    test -s paste
    bash -euxo pipefail paste
    udevadm settle
}

reverted() {
    sed -n 's/^revert:  //p' "$1" >paste
    test -s paste
    bash -euxo pipefail paste
    udevadm settle
}

# As at the next start: udev receives an event for each device.
starts_anew() {
    systemctl restart systemd-udev-trigger
    udevadm settle
}

# sound DISK: no link is broken, and no rule without effect.
sound() {
    dwell doctor "/dev/$1" >printed
    cat printed
    not grep -E 'PROBLEM|\(udev\)' printed
}

# too_early DISK: the rule in an earlier file, which finds the disk's properties empty.
too_early() {
    grep '^ACTION' rule >/etc/udev/rules.d/60-dwell.rules
    udevadm control --reload
    starts_anew
    is_set "$1" mq-deadline
    dwell doctor "/dev/$1" >printed
    expect "is empty there, because udev sets it in 60-persistent-storage.rules" printed
    rm /etc/udev/rules.d/60-dwell.rules
    udevadm control --reload
}

# by_rule DISK OTHER: the rule sets the disk's scheduler now and at the next start, and not the other's, until it is removed.
by_rule() {
    advised "/dev/$1"
    expect "recommendation: none instead of mq-deadline" advice
    not grep -q 'KERNEL==' advice
    pasted rule
    is_set "$1" none
    sound "$1"
    begins_with mq-deadline "$1"
    dwell doctor "/dev/$1" >printed
    expect "(udev)" printed
    starts_anew
    is_set "$1" none
    is_set "$2" mq-deadline
    sound "$1"
    reverted rule
    is_set "$1" mq-deadline
    too_early "$1"
    same "$(ls /etc/udev/rules.d | grep dwell || true)" ""
    starts_anew
    is_set "$1" mq-deadline
}

rule_and_hotplug() {
    advised /dev/sdb
    pasted rule
    begins_with mq-deadline sdb
    pull
    returns
    until_true is_set sdb none
    sound sdb
    reverted rule
    is_set sdb mq-deadline
}

# A scheduler with a setting, whose module is not loaded before.
rule_with_setting() {
    advised /dev/sda
    pasted rule
    sed -i 's|ATTR{queue/scheduler}="none"|ATTR{queue/scheduler}="bfq", ATTR{queue/iosched/low_latency}="0"|' /etc/udev/rules.d/*dwell*
    cat /etc/udev/rules.d/*dwell*
    rmmod bfq || true
    udevadm control --reload
    starts_anew
    is_set sda bfq
    same "$(</sys/block/sda/queue/iosched/low_latency)" 0
    sound sda
    reverted rule
}

by_unit() {
    advised /dev/sda
    pasted unit
    dwell tune /dev/sda --status
    reverted unit
    no_unit
    is_set sda mq-deadline
}

# Neither active nor enabled.
no_unit() {
    same "$(systemctl list-units --no-legend 'dwell-tune@*')" ""
    same "$(find /etc/systemd/system -name 'dwell-tune@*.service' -path '*.wants/*')" ""
}

by_tuned() {
    local before read_ahead
    mkdir -p /run/systemd/system/tuned.service.d
    printf '[Service]\nTimeoutStartSec=10min\n' >/run/systemd/system/tuned.service.d/slow.conf
    systemctl daemon-reload
    systemctl start tuned
    before=$(tuned-adm active)
    read_ahead=$(cat /sys/block/sd[ab]/queue/read_ahead_kb)
    advised /dev/sda
    pasted tuned
    tuned-adm active
    until_true is_set sda none
    # The other profile's section [disk] still applies to the other disk.
    same "$(cat /sys/block/sd[ab]/queue/read_ahead_kb)" "$read_ahead"
    is_set sdb mq-deadline
    sound sda
    reverted tuned
    same "$(tuned-adm active)" "$before"
    until_true is_set sda mq-deadline
}

# However a check ended, the next one finds the disks as they were.
advice() {
    check "$@"
    systemctl stop 'dwell-tune@*'
    rm -f /etc/systemd/system/*.wants/dwell-tune@*
    systemctl daemon-reload
    systemctl stop tuned
    rm -rf /etc/udev/rules.d/*dwell* /etc/tuned/dwell-* /etc/tuned/profiles/dwell-*
    udevadm control --reload
    modprobe bfq
    for disk in sda sdb vdc; do begins_with mq-deadline $disk; done
}

advice "advice: a udev rule for a SCSI disk" by_rule sda sdb
advice "advice: a udev rule for a virtio disk" by_rule vdc sda
advice "advice: a udev rule for a disk that is plugged in" rule_and_hotplug
advice "advice: a udev rule with a scheduler's setting" rule_with_setting
advice "advice: a unit" by_unit
advice "advice: a profile of tuned's" by_tuned
