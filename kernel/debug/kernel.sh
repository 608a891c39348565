# Sourced by kernel/check: a kernel that checks itself, with lockdep and KASAN, compiled once from Debian 13's source package with the guest's
# compiler. It is slim: tinyconfig and what `config` adds.

# Every report of KASAN, and what such a slow kernel needs: a longer limit for tasks that hang, PCI without ACPI's methods (they exceed 30 s).
debug_options='sysctl.kernel.hung_task_timeout_secs=600 pci=noacpi kasan_multi_shot'

# in_root COMMAND: in the guest's root directory, with the kernel's tree at /usr/src/linux
in_root() {
    # shellcheck disable=SC2016 # for the inner shell
    unshare -m sh -eu -c '
        mkdir -p "$1/usr/src/linux" && mount --bind "$2" "$1/usr/src/linux" && mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev"
        exec chroot "$1" sh -euc "$3"
    ' sh "$out/debug/root.new" "$out/debug/linux" "$1"
}

# missing: options that the configuration did not take
missing() {
    local line name
    while IFS= read -r line; do
        name=${line%%=*}
        case $line in
        *=n) ! grep -q "^$name=" "$out/debug/linux/.config" || echo "$line" ;;
        *) grep -qxF "$line" "$out/debug/linux/.config" || echo "$line" ;;
        esac
    done <"$out/debug/linux/kernel/configs/dwell.config"
}

make_debug_root() {
    local linux=$out/debug/linux root=$out/debug/root.new from left
    [ ! -e "$out/debug/root" ] || return 0
    from=$(mirror)
    [ -n "$from" ] || { echo "kernel/check found no Debian mirror: set MIRROR"; return 1; }
    echo "compiling a kernel with lockdep and KASAN; this takes long ($out/debug/kernel.log)"
    rm -rf "${out:?}/debug"
    mkdir -p "$linux"
    debootstrapped "$root" trixie "$guest_packages,linux-source-6.12,xz-utils,bc,flex,bison,libelf-dev,libssl-dev,dwarves" "deb $from trixie main" || return 1
    # Without what is large and not compiled.
    tar -xf "$root"/usr/src/linux-source-*.tar.xz -C "$linux" --strip-components=1 --exclude='*/drivers/gpu/drm/*/include' --exclude='*/Documentation/[a-z]*' ||
        return 1
    rm "$root"/usr/src/linux-source-*.tar.xz
    cp "$here/debug/config" "$linux/kernel/configs/dwell.config"
    in_root 'cd /usr/src/linux; make -s tinyconfig dwell.config' >"$out/debug/kernel.log" 2>&1 || return 1
    left=$(missing | grep '^CONFIG' || true)
    [ -z "$left" ] || { echo "the kernel cannot be configured: $left"; return 1; }
    # BTF of one object in place of debug information of all: layout.py compares the same structures.
    # shellcheck disable=SC2016 # for the inner shell
    in_root '
        cd /usr/src/linux
        nice -n 10 make -j"$(nproc)" bzImage modules
        make -s modules_install
        version=$(make -s kernelrelease)
        ln -sfn /usr/src/linux "/usr/lib/modules/$version/build"
        cp arch/x86/boot/bzImage "/boot/vmlinuz-$version"
        make -s KCFLAGS=-g block/mq-deadline.o
        pahole -J --btf_encode_detached=btf block/mq-deadline.o
        objcopy --add-section .BTF=btf vmlinux
    ' >>"$out/debug/kernel.log" 2>&1 || { tail -n 20 "$out/debug/kernel.log"; return 1; }
    mv "$root" "$out/debug/root"
}
