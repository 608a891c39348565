# Server and writer in one memory cgroup of version 2, whose limit the writer reaches, and kills of the server.

sectors() { read -ra stat <"/sys/block/${device#/dev/}/stat" && echo "${stat[6]}"; }
goes_on() { [ "$(sectors)" -gt $(($1 + 8192)) ]; }
serving() { pgrep -o -P "$server"; }

# Kernels before 6.9 cannot send a dead server's requests again: users get errors, and nothing hangs.
killed() {
    local server device writer kill group=/sys/fs/cgroup/dwell
    echo +memory >/sys/fs/cgroup/cgroup.subtree_control
    mkdir $group
    echo 128M >$group/memory.max
    # shellcheck disable=SC2016 # the inner shell's
    served "serving /dev/sda" sh -c 'echo 0 >"$0/cgroup.procs" && exec dwell serve /dev/sda --attach' $group
    # shellcheck disable=SC2016
    sh -c 'echo 0 >"$0/cgroup.procs" && while dd if=/dev/zero of="$1" bs=1M count=200 conv=notrunc,fsync; do :; done' $group "$device" &
    writer=$!
    until_true goes_on 0
    if ! grep -q "a crash of this process loses the device" said; then
        for kill in 1 2 3; do
            kill -KILL "$(serving)"
            until_true goes_on "$(sectors)"
            echo "continued after kill $kill: $(grep -E '^(anon|file|file_dirty|file_writeback|unevictable) ' $group/memory.stat | tr '\n' ' ')"
        done
        kill -KILL -- "-$writer"
        kill $server
        ends $server 0
    else
        kill -KILL "$(serving)"
        ends $server 137
        until_true test ! -e /proc/$writer/exe
        # The next server takes down what is left.
        served "serving /dev/sda" dwell serve /dev/sda --attach
        kill $server
        ends $server 0
    fi
    until_true rmdir $group
    same "$(losetup -l)$(grep dwell /proc/mounts || true)" ""
}

check "killed beside a writer in a memory cgroup of version 2" killed
