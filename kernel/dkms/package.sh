# Sourced by kernel/build: package() makes $out/dwell-dkms_${version}_all.deb from module/, dkms/ and $out/rust.o.

package() {
    local root=$out/package source=$out/package/usr/src/dwell-$version script
    command -v dpkg-deb >/dev/null || fail "no dpkg-deb: a Debian package is built on Debian"
    rm -rf "$root"
    mkdir -p "$root/DEBIAN" "$source" "$root/usr/share/doc/dwell-dkms"
    cp module/*.c module/*.h module/*.S module/Makefile module/configure module/layout.py "$source"
    cp "$out/rust.o" "$source/rust.o_shipped"
    sed "s/@VERSION@/$version/" dkms/dkms.conf >"$source/dkms.conf"
    cat >"$root/usr/share/doc/dwell-dkms/copyright" <<EOF
The C and assembly files are GPL-2.0-only. rust.o_shipped is built from Rust sources under MIT or Apache-2.0.
EOF
    cat >"$root/DEBIAN/control" <<EOF
Package: dwell-dkms
Version: $version
Architecture: all
Maintainer: The Dwell developers <maintainers@dwell.invalid>
Section: kernel
Priority: optional
Depends: dkms (>= 3), python3, kmod
Recommends: linux-headers-amd64
Description: I/O schedulers as loadable elevators (DKMS)
 Dwell's schedulers (stream, cooperative, anticipatory, cfq and others) for the block layer of Debian's kernels
 6.1, 6.12 and 7.3 on amd64. Chosen with /sys/block/DEVICE/queue/scheduler.
EOF
    for script in postinst prerm; do
        sed "s/@VERSION@/$version/" "dkms/$script" >"$root/DEBIAN/$script"
        chmod 755 "$root/DEBIAN/$script"
    done
    dpkg-deb --root-owner-group --build "$root" "$out/dwell-dkms_${version}_all.deb"
    rm -rf "$root"
}
