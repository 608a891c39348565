# The causes of writes on ext4, which is a module of Debian's kernels: also of its journal and metadata.

# Files are made, some are removed, and one is made durable.
changes() {
    local - i
    set +x
    for i in {1..200}; do head -c 6000 /dev/zero >/srv/$i; done
    rm /srv/1?
    sync /srv/2
    sync -f /srv
}

caused() {
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/sda
    mount /dev/sda /srv
    dwell causes /dev/sda --json >causes.json 2>notes &
    until_true grep -q observing notes
    changes
    kill -INT $!
    wait $!
    umount /srv
    jq 'del(.accounts, .delegated)' causes.json
    cat notes
    not grep -q 'ext4: journal' notes
    jq -e '.unattributed < .written / 20' causes.json
    jq -e '[.accounts[].journal.bytes] | add > 0' causes.json
    jq -e '[.accounts[].metadata.bytes] | add > 0' causes.json
}

check "causes: journal and metadata of ext4 as a module" caused
wipefs -q -a /dev/sda
