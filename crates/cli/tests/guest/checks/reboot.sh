# The rule, the profile and the unit that `dwell advise` prints are in effect after a reboot, and after they were reverted and another reboot
# they are not. Run alone (`run reboot`): the functions are those of advice.sh, whose checks do not run again.
. <(sed '/^advice "/d' checks/advice.sh)

# disk SERIAL: its present name, which a reboot may change.
disk() {
    until_true test -e /dev/disk/by-id/*"_$1" >&2
    basename "$(readlink -f /dev/disk/by-id/*"_$1")"
}
disks() { first=$(disk first) second=$(disk second); }

# keep FILE: keeps what was pasted, as the next check has a directory of its own.
keep() { cp "$1" "/var/lib/dwell-pasted-$1"; }
revert_kept() { cp "/var/lib/dwell-pasted-$1" "$1" && reverted "$1"; }

rule_before() {
    disks
    advised "/dev/$first"
    pasted rule
    is_set "$first" none
    keep rule
}
rule_after() {
    disks
    is_set "$first" none
    is_set "$second" mq-deadline
    sound "$first"
    revert_kept rule
    same "$(ls /etc/udev/rules.d | grep dwell || true)" ""
    is_set "$first" mq-deadline
}
no_rule_after() { disks && is_set "$first" mq-deadline; }

tuned_before() {
    disks
    systemctl enable --now tuned
    advised "/dev/$first"
    pasted tuned
    keep tuned
    until_true is_set "$first" none
}
tuned_after() {
    disks
    until_true systemctl is-active tuned
    until_true is_set "$first" none || { cat /etc/tuned/active_profile /var/log/tuned/tuned.log && return 1; }
    is_set "$second" mq-deadline
    expect dwell <(tuned-adm active)
    revert_kept tuned
    not grep -q dwell /etc/tuned/active_profile
    until_true is_set "$first" mq-deadline
    systemctl disable --now tuned
}

unit_before() {
    disks
    advised "/dev/$first"
    pasted unit
    keep unit
    dwell tune "/dev/$first" --status
}
unit_after() {
    disks
    until_true dwell tune "/dev/$first" --status
    not dwell tune "/dev/$second" --status
    revert_kept unit
    no_unit
    is_set "$first" mq-deadline
}
case $stage in
"")
    printf '[Service]\nTimeoutStartSec=10min\n' >/tmp/slow.conf
    install -D -m 644 /tmp/slow.conf /etc/systemd/system/tuned.service.d/slow.conf
    # After a reboot, 6.12 may choose another scheduler than the one to revert to.
    echo 'ACTION=="add", KERNEL=="sd*", ENV{DEVTYPE}=="disk", ATTR{queue/scheduler}="mq-deadline"' >/etc/udev/rules.d/10-checks.rules
    check "reboot: a profile of tuned's is pasted" tuned_before
    continues_after_reboot tuned
    ;;
tuned)
    check "reboot: the profile is in effect, and reverted" tuned_after
    check "reboot: a udev rule is pasted" rule_before
    continues_after_reboot rule
    ;;
rule)
    check "reboot: the rule is in effect, and reverted" rule_after
    check "reboot: a unit is pasted" unit_before
    continues_after_reboot unit
    ;;
unit)
    check "reboot: the unit is in effect, and reverted" unit_after
    continues_after_reboot end
    ;;
end)
    check "reboot: the rule and the profile are gone" no_rule_after
    check "reboot: the unit is gone" no_unit
    ;;
esac
