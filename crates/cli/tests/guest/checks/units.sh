# The units of packaging/.

# settings UNIT KEY=VALUE...: for this machine's speed.
settings() {
    local unit=$1
    shift
    mkdir -p "/run/systemd/system/$unit.service.d"
    printf '%s\n' '[Service]' "$@" >"/run/systemd/system/$unit.service.d/checks.conf"
    systemctl daemon-reload
}
state() { systemctl show -P "$2" "$1"; }
state_is() { [ "$(state "$1" "$2")" = "$3" ]; }

verified() {
    systemd-analyze verify /etc/systemd/system/dwell-{tune,serve}@.service >said 2>&1
    cat said
    test ! -s said
}

# As it was when this was written, which nobody shall make worse unnoticed.
exposed() {
    systemd-analyze security --threshold="$2" --no-pager "$1" >said || { cat said && return 1; }
}

tunes_unit() { until_true eval '! is_set sda mq-deadline'; }

# And is not about to be tried again.
ended() { [[ $(state "$1" ActiveState) = @(inactive|failed) ]]; }

tuner_unit() {
    reads /dev/sda
    systemctl start dwell-tune@sda
    tunes_unit
    systemctl status --no-pager dwell-tune@sda
    same "$(state dwell-tune@sda Type)" notify
    test -n "$(state dwell-tune@sda StatusText)"
    refused 2 "end that first" dwell tune /dev/sda --for 1s --database learned
    dwell tune /dev/sda --status
    systemctl stop dwell-tune@sda
    same "$(state dwell-tune@sda Result)" success
    is_set sda mq-deadline
}

killed_unit() {
    reads /dev/sda
    settings dwell-tune@sda RestartSec=1
    systemctl start dwell-tune@sda
    tunes_unit
    systemctl kill -s KILL dwell-tune@sda
    until_true state_is dwell-tune@sda NRestarts 1
    until_true state_is dwell-tune@sda ActiveState active
    journalctl -u dwell-tune@sda --no-pager >said
    expect "sda: restored after process" said
    systemctl stop dwell-tune@sda
    is_set sda mq-deadline
}

# A tuner that hangs is killed, and the next one puts back what it had set.
hanging_unit() {
    reads /dev/sda
    # It hears nothing of the signal to dump core, either.
    settings dwell-tune@sda RestartSec=1 WatchdogSec=10 TimeoutStopSec=2
    systemctl start dwell-tune@sda
    tunes_unit
    sleep 12
    same "$(state dwell-tune@sda NRestarts)" 0
    systemctl kill -s STOP dwell-tune@sda
    until_true state_is dwell-tune@sda NRestarts 1
    until_true state_is dwell-tune@sda ActiveState active
    systemctl stop dwell-tune@sda
    is_set sda mq-deadline
}

overruled_unit() {
    reads /dev/sda
    settings dwell-tune@sda RestartSec=1
    systemctl start dwell-tune@sda
    tunes_unit
    echo kyber >/sys/block/sda/queue/scheduler
    until_true state_is dwell-tune@sda ActiveState failed
    sleep 3
    same "$(state dwell-tune@sda ExecMainStatus)" 7
    is_set sda kyber
}

unplugged_unit() {
    systemctl enable --now dwell-tune@sdb
    pull
    until_true ended dwell-tune@sdb
    plug
    until_true state_is dwell-tune@sdb ActiveState active
    systemctl disable --now dwell-tune@sdb
}

served() { echo "DWELL_SERVE_OPTIONS=$*" >/etc/default/dwell-serve-disk && systemctl start dwell-serve@disk; }

server_unit() {
    served /dev/sda --scheduler 'stream(deadline)' --attach --identify bpf --nbd unix:/run/dwell/disk.sock \
        --control /run/dwell/disk.ctl
    systemctl status --no-pager dwell-serve@disk
    expect "serving /dev/sda" <(state dwell-serve@disk StatusText)
    same "$(blockdev --getsize64 /dev/loop0)" "$(blockdev --getsize64 /dev/sda)"
    mkfs.ext4 -q /dev/loop0
    e2fsck -fn /dev/loop0
    dwell ctl /run/dwell/disk.ctl switch deadline
    nbd-client -unix /run/dwell/disk.sock /dev/nbd0
    cmp -n $((8 << 20)) /dev/nbd0 /dev/loop0
    nbd-client -d /dev/nbd0
    refused 5 "held by another" dwell serve /dev/sda --nbd unix:socket
    systemctl stop dwell-serve@disk
    same "$(state dwell-serve@disk Result)" success
    same "$(losetup -l)$(grep dwell /proc/mounts || true)" ""
}

filtered_unit() {
    settings dwell-serve@disk SystemCallFilter=~io_uring_setup SystemCallErrorNumber=EPERM
    served /dev/sda --attach --control /run/dwell/disk.ctl
    journalctl -u dwell-serve@disk --no-pager >said
    expect "io_uring is refused" said
    expect "threads" <(dwell ctl /run/dwell/disk.ctl show)
    mkfs.ext4 -q /dev/loop0
    e2fsck -fn /dev/loop0
    systemctl stop dwell-serve@disk
}

killed_server_unit() {
    settings dwell-serve@disk RestartSec=1
    served /dev/sda --attach
    systemctl kill -s KILL dwell-serve@disk
    until_true state_is dwell-serve@disk NRestarts 1
    until_true state_is dwell-serve@disk ActiveState active
    same "$(losetup -ln | wc -l)" 1
    e2fsck -fn /dev/loop0
    systemctl stop dwell-serve@disk
    same "$(losetup -l)$(grep dwell /proc/mounts || true)" ""
}

senseless_unit() {
    settings dwell-serve@disk RestartSec=1
    not served "$@"
    sleep 3
    same "$(state dwell-serve@disk NRestarts)" 0
}

# However a check ended, the next one finds no unit, none of its settings, and the disk under its scheduler.
alone() {
    check "$@"
    systemctl stop dwell-tune@sda dwell-tune@sdb dwell-serve@disk
    systemctl reset-failed
    rm -rf /run/systemd/system/dwell-*.d /var/lib/dwell
    systemctl daemon-reload
    begins_with mq-deadline sda
}

echo 'DWELL_TUNE_OPTIONS=--window 1s --arm none --arm bfq' >/etc/default/dwell-tune
check "systemd-analyze verify has nothing to say" verified
check "dwell-tune@: no more exposed than 4.8" exposed dwell-tune@sda.service 48
check "dwell-serve@: no more exposed than 5.7" exposed dwell-serve@disk.service 57
alone "dwell-tune@: starts, says how it is, stops, puts back" tuner_unit
alone "dwell-tune@: killed, puts back at its restart" killed_unit
alone "dwell-tune@: the watchdog leaves it alone, unless it hangs" hanging_unit
alone "dwell-tune@: overruled, it stays away" overruled_unit
alone "dwell-tune@: enabled, it ends with its disk and begins again with it" unplugged_unit
alone "dwell-serve@: attached and by NBD at once, starts and stops" server_unit
alone "dwell-serve@: killed, serves again after its restart" killed_server_unit
alone "dwell-serve@: io_uring refused by a filter: said, by threads" filtered_unit
alone "dwell-serve@: what makes no sense is not tried again" senseless_unit /dev/sda --scheduler nonsense --attach
alone "dwell-serve@: a disk that is not there is not tried again" senseless_unit /dev/sdz --attach
wipefs -q -a /dev/sda
