# What is asked of a disk is counted right on this kernel, also where it refuses BPF. Takes leave away from the whole guest at its end.

# 1000 reads of 4 KiB in two passes.
asked() { for first in 0 8000; do dd if=/dev/sda of=/dev/null bs=4k count=500 skip=$first iflag=direct status=none; done; }

# records_of HOW COMMAND...: what that asks of sda.
records_of() {
    local recorder
    dwell record /dev/sda --backend "$1" -o trace 2>said &
    recorder=$!
    until_true grep -q recording said
    sleep 1
    "${@:2}"
    sleep 1
    kill $recorder
    ends $recorder 0
    cat said
}

# counted HOW: every read, where it was and by whom, with its end.
counted() {
    records_of "$1" asked
    expect "1000 requests" said
    awk '!/^#/ && $NF == "dd" && $6 == 4096 && $2 > 0 { print $5 / 4096 }' trace | sort -n >places
    cmp places <(seq 0 499; seq 8000 8499)
}

changed() {
    dd if=/dev/zero of=/dev/sda bs=64k count=100 oflag=direct conv=fsync status=none
    blkdiscard -f -o 0 -l $((1 << 20)) /dev/sda
}

written() {
    records_of "$1" changed
    dwell trace info trace >info
    expect "writes: 100 requests, 6.55 MB" info
    expect "discards: 1 request, 1.05 MB" info
    expect "flushes: 1" info
}

without=(setpriv --bounding-set "-bpf,-perfmon,-sys_admin")

falls_back() {
    "${without[@]}" dwell record /dev/sda --for 1s -o trace 2>said
    cat said
    expect "using tracefs instead" said
    expect "by tracefs" said
}

tuned_without() {
    reads /dev/sda
    tunes /dev/sda sda "${without[@]}"
    kill $tuner
    ends $tuner 0
    expect "using tracefs instead" tuner.log
    is_set sda mq-deadline
}

integrity() {
    echo integrity >/sys/kernel/security/lockdown
    counted bpf
    counted tracefs
}

# The kernel's tracer is closed then. A BPF program that reads what its tracepoint gives it is not.
confidentiality() {
    echo confidentiality >/sys/kernel/security/lockdown
    counted bpf
    refused 5 "lockdown" dwell record /dev/sda --backend tracefs --for 1s -o none
    test ! -e none
}

check "reads, by BPF: all, where they were" counted bpf
check "reads, by tracefs: all, where they were" counted tracefs
check "writes, discards and flushes, by BPF" written bpf
check "writes, discards and flushes, by tracefs" written tracefs
check "without CAP_BPF: by tracefs, and said" falls_back
check "without CAP_BPF: tuned by tracefs" tuned_without
check "under lockdown=integrity: both ways" integrity
check "under lockdown=confidentiality: by BPF; tracefs is refused, and that said" confidentiality
