# A database on md on members that dwell serves: beside a scrub, and while members fail, are replaced and rebuilt. Every transaction that was
# acknowledged is there afterwards.

. checks/array-functions

figures=/tmp/array-failures
: >$figures

# patiently COMMAND...: as until_true, for five minutes.
patiently() {
    local try
    for try in {1..5}; do ! until_true "$@" || return 0; done
    return 1
}

# Begins transactions ($database), each of a row whose content follows from its number; `acknowledged` has the numbers of those that ended.
begins_database() {
    sqlite3 files/db 'PRAGMA journal_mode=WAL; CREATE TABLE rows(id INTEGER PRIMARY KEY, data TEXT)' >/dev/null
    {
        set +x
        for ((row = 1; ; row++)); do
            ! [ -e stop ] || break
            echo "INSERT INTO rows VALUES($row, replace(hex(zeroblob(1500)), '00', printf('%02x', $row % 256)));"
            echo "SELECT $row;"
        done | stdbuf -oL sqlite3 -bail -cmd 'PRAGMA synchronous=FULL' files/db >acknowledged
    } &
    database=$!
    until_true test -s acknowledged
}
transactions() { wc -l <acknowledged; }
advances() { [ "$(transactions)" -gt $(($1 + 20)) ]; }
# advance: at least 20 more transactions.
advance() { patiently advances "$(transactions)"; }

# No transaction failed, and all are there after the caches were dropped.
ends_database() {
    touch stop
    patiently test ! -e "/proc/$database/exe"
    wait "$database"
    sync
    echo 3 >/proc/sys/vm/drop_caches
    same "$(sqlite3 files/db 'PRAGMA integrity_check')" ok
    same "$(sqlite3 files/db "SELECT count(*) FROM rows WHERE data = replace(hex(zeroblob(1500)), '00', printf('%02x', id % 256))")" "$(transactions)"
    verifies
}

degraded() { [ "$(cat /sys/block/md9/md/degraded)" = "$1" ]; }

finds_no_difference() {
    echo check >/sys/block/md9/md/sync_action
    patiently is_idle
    same "$(cat /sys/block/md9/md/mismatch_cnt)" 0
}

# replaces MEMBER FILE: by an empty disk.
replaces() {
    patiently mdadm --quiet /dev/md9 --remove failed
    truncate -s "${size:-48M}" "$2"
    loops[$1]=$(dwell ctl array.ctl member replace "$1" "$2")
    mdadm --quiet /dev/md9 --add "${loops[$1]}"
}

# fail_beside_database LEVEL MEMBERS "FAILED..." OPTIONS...: these members fail while the database works. md notices by its requests.
fail_beside_database() {
    local member failed
    read -ra failed <<<"$3"
    members "$2"
    creates "$1" "${@:4}"
    patiently is_idle
    fills
    begins_database
    advance
    for member in "${failed[@]}"; do dwell ctl array.ctl member fail "$member"; done
    patiently degraded ${#failed[@]}
    advance
    verifies
    for member in "${failed[@]}"; do replaces "$member" "replacement$member"; done
    # The replacement fails as well, in the middle of its rebuild or after it, and gets another one.
    dwell ctl array.ctl member fail "${failed[0]}"
    patiently not degraded 0
    replaces "${failed[0]}" again
    patiently degraded 0
    patiently is_idle
    advance
    ends_database
    finds_no_difference
    verifies
    echo "RAID $1, failed ${failed[*]}: $(transactions) transactions, none lost" >>$figures
    ends_array
}

# A scrub beside the database: the transactions in the same time before it and in it.
scrub_beside_database() {
    local before during began
    size=160M
    members 3
    creates 5 --chunk=64
    patiently is_idle
    fills
    begins_database
    before=$(transactions)
    sleep 10
    before=$(($(transactions) - before))
    during=$(transactions) began=$EPOCHREALTIME
    finds_no_difference
    during=$(($(transactions) - during)) began=$(((${EPOCHREALTIME/./} - ${began/./}) / 100000))
    ends_database
    dwell ctl array.ctl array | sed -n 2p >recognised
    echo "RAID 5, scrub of 160 MB of each member in $began tenths of a second: $during transactions; in 100 tenths before it $before; $(<recognised)" >>$figures
    not grep -q '; 0 requests recognised' recognised
    ends_array
}

check "RAID 5: a scrub beside a database" scrub_beside_database
check "RAID 5: a member fails beside a database" fail_beside_database 5 3 1 --chunk=64
check "RAID 6: two members fail beside a database" fail_beside_database 6 4 "1 3" --chunk=64
check "RAID 10: a member fails beside a database" fail_beside_database 10 4 2 --chunk=64
cat $figures
