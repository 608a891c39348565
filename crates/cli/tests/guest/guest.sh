#!/bin/bash
# Runs in the guest: the checks of the files of checks/ that `which` names, a line each, and of one that failed what it did and said.
# The last line counts them, by which the host knows that all were run.
cd "$(dirname "$0")" || exit
export LC_ALL=C
stty -F /dev/ttyS1 raw
passed=0 failed=0
# Checks that continue after a reboot of the guest store here what comes next, and what was counted.
next=/var/lib/dwell-checks
stage=
[ ! -e $next ] || { read -r stage passed failed <$next && rm $next; }

# check NAME COMMAND...: in a shell and a directory of its own; what it started in the background ends with it.
check() {
    local name=$1 began=$SECONDS code
    shift
    (
        # Each in a process group of its own, by which it ends with all that it started.
        set -m -euxo pipefail
        trap 'set +x; for job in $(jobs -p); do kill -KILL -- "-$job"; done' EXIT
        cd "$(mktemp -d)"
        "$@"
    ) >/tmp/said 2>&1 </dev/null
    code=$?
    if [ $code = 0 ]; then
        passed=$((passed + 1))
        echo "ok    $name ($((SECONDS - began)) s)"
    else
        failed=$((failed + 1))
        echo "FAIL  $name ($((SECONDS - began)) s)"
        tail -n 60 /tmp/said | sed 's/^/      | /'
    fi
}

# until_true COMMAND...: everything takes its time here, but no more than a minute.
until_true() {
    local - try
    set +x
    for try in {1..240}; do
        ! "$@" || return 0
        sleep 0.25
    done
    echo "in vain: $*"
    return 1
}

# Unlike with !, a check ends if it fails.
not() { ! "$@"; }

# expect WORDS FILE
expect() { grep -qF -- "$1" "$2" || { echo "no '$1' in:" && cat "$2" && return 1; }; }

# same THIS THAT
same() { [ "$1" = "$2" ] || { echo "not '$2' but '$1'" && return 1; }; }

# ends PROCESS CODE: by itself. One that has ended and was not asked about has no executable any more.
ends() {
    local code=0
    until_true test ! -e "/proc/$1/exe"
    wait "$1" || code=$?
    same $code "$2"
}

# refused CODE WORDS COMMAND...: it says these words and ends with that exit code.
refused() {
    local code=0 words=$2 expected=$1
    shift 2
    "$@" >refused 2>&1 || code=$?
    expect "$words" refused
    same $code "$expected"
}

# Reads a device again and again ($reader), as long as it is there; not all the time, as tuners run when nobody else does.
reads() {
    {
        set +x
        while dd if="$1" of=/dev/null bs=16k count=400 iflag=direct status=none; do sleep 0.1; done
    } &
    reader=$!
}
reads_no_more() { kill -KILL -- "-$reader" && wait "$reader" || true; }

scheduler() { sed 's/.*\[\(.*\)\].*/\1/' "/sys/block/$1/queue/scheduler"; }
is_set() { [ "$(scheduler "$1")" = "$2" ]; }

# begins_with SCHEDULER DISK: whatever the kernel prefers, which changes from one to the next.
begins_with() { echo "$1" >"/sys/block/$2/queue/scheduler"; }

# tunes DEVICE DISK [COMMAND...]: begins a tuner ($tuner), by that command if one is given, and waits until it has set another
# scheduler than the disk had.
tunes() {
    local before
    before=$(scheduler "$2")
    "${@:3}" dwell tune "$1" --window 1s --arm none --arm bfq --database learned >tuner.log 2>&1 &
    tuner=$!
    until_true eval "! is_set $2 $before" || { cat tuner.log && return 1; }
}

# attends DEVICE DISK: begins a tuner ($tuner) of what nobody asks for anything. Then nothing is decided either.
attends() {
    dwell tune "$1" --window 1s --database learned >tuner.log 2>&1 &
    tuner=$!
    until_true test -e "/run/dwell/tune-$2.json"
}

# loses DISK: the tuner says that its disk is gone, and ends.
loses() {
    ends $tuner 1
    expect "$1: the device was removed" tuner.log
}

# served WORDS OPTIONS...: begins, says these words, and does ($server, $device).
served() {
    local words=$1
    shift
    "$@" >served 2>said &
    server=$!
    until_true grep -q serving said
    expect "$words" said
    device=$(<served)
}

# The second disk is taken away, and comes back.
pull() { echo 1 >/sys/block/sdb/device/delete; }
returns() {
    local host
    for host in /sys/class/scsi_host/*; do
        [ "$(<"$host/proc_name")" != virtio_scsi ] || echo "- - -" >"$host/scan"
    done
    until_true test -b /dev/sdb
    udevadm settle
}
plug() { returns && begins_with mq-deadline sdb; }

# continues_after_reboot STAGE: reboots, and runs the files of checks again with that $stage.
continues_after_reboot() {
    echo "$1 $passed $failed" >$next
    systemctl --no-block reboot
    exit 0
}

install -t /usr/bin dwell
cp packaging/*.service /etc/systemd/system
systemctl daemon-reload
modprobe -a bfq loop fuse dm_mod dm_crypt dm_thin_pool raid0 raid1 nbd
if [ -z "$stage" ]; then
    for disk in sda sdb vdc; do begins_with mq-deadline $disk; done
    echo "$(uname -r), $(dwell --version)"
fi
for file in $(</dwell/which); do . "checks/$file.sh"; done
echo "$passed passed, $failed failed"
