#!/usr/bin/env bash
# Runs a command in the environment in which Go builds for another architecture:  scripts/vm/cross.sh arm64 go build ...
# libbpf and what it needs come from Debian's packages, unpacked under build/vm and not installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
arch=$1
shift
case $arch in
arm64) triplet=aarch64-linux-gnu ;;
*) echo "vm: no cross compiler for ARCH=$arch is known" >&2; exit 1 ;;
esac
sysroot=build/vm/sysroot-$arch
if [ ! -d "$sysroot" ]; then
	rm -rf "$sysroot.new"
	for package in libbpf-dev linux-libc-dev; do # bookworm's own are too old for libbpfgo
		scripts/vm/debian.sh "$arch" "$sysroot.new" bookworm-backports $package
	done
	for package in libelf-dev zlib1g-dev; do
		scripts/vm/debian.sh "$arch" "$sysroot.new" bookworm $package
	done
	mv "$sysroot.new" "$sysroot"
fi
sysroot=$PWD/$sysroot
# libbpfgo does not ask pkg-config, so all is in the flags. -isystem comes before the compiler's own directories.
export GOOS=linux GOARCH=$arch CGO_ENABLED=1 CC=$triplet-gcc
export PKG_CONFIG_LIBDIR=$sysroot/usr/lib/$triplet/pkgconfig PKG_CONFIG_SYSROOT_DIR=$sysroot
CGO_CFLAGS="$(go env CGO_CFLAGS) -isystem $sysroot/usr/include -isystem $sysroot/usr/include/$triplet"
CGO_LDFLAGS="$(go env CGO_LDFLAGS) -L$sysroot/usr/lib/$triplet"
export CGO_CFLAGS CGO_LDFLAGS
unset PKG_CONFIG_PATH
exec "$@"
