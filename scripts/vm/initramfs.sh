#!/usr/bin/env bash
# Prints the path of an initramfs for an architecture, with busybox, scripts/vm/init and the test programs, linked
# statically. Packs it anew only if one of them has changed.  scripts/vm/initramfs.sh amd64
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
arch=$1
out=build/vm/initramfs-$arch
busybox=build/vm/busybox-$arch
if [ ! -d "$busybox" ]; then
	rm -rf "$busybox.new"
	scripts/vm/debian.sh "$arch" "$busybox.new" bookworm busybox-static ./bin/busybox
	mv "$busybox.new" "$busybox"
fi

mkdir -p "$out/root"/{bin,dev,proc,sys,tmp,root}
environment=scripts/env.sh
[ "$arch" = "$(go env GOHOSTARCH)" ] || environment="scripts/vm/cross.sh $arch"
tags=static_build,perfbuf_hotplug
if [ "${LIBBPF:-}" = no ]; then # libbpfgo, which loads the tests' programs, still needs it
	tags=$tags,perfbuf_nolibbpf
	CGO_LDFLAGS="$($environment pkg-config --static --libs libbpf) -static"
	export CGO_LDFLAGS
fi
flags=(-tags "$tags" -ldflags '-s -w -extldflags -Wl,--no-warnings')
$environment go test -c "${flags[@]}" -o "$out/root/" ./lab/kernel ./perfbuf/perfchan ./perfbuf/flight ./internal/grace ./internal/ringbuf ./cgo
$environment go build "${flags[@]}" -o "$out/root/soak" ./internal/soak
install -m 755 "$busybox/bin/busybox" "$out/root/bin/busybox"
install -m 755 scripts/vm/init "$out/root/init"

sums=$(cd "$out/root" && find . -type f -exec sha256sum {} + | sort)
if [ ! -e "$out/cpio" ] || [ "$sums" != "$(cat "$out/sums" 2>/dev/null)" ]; then
	rm -f "$out/sums"
	(cd "$out/root" && find . | cpio --quiet -o -H newc -R 0:0) >"$out/cpio"
	echo "$sums" >"$out/sums"
fi
echo "$out/cpio"
