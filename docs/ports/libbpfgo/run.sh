#!/usr/bin/env bash
# Runs libbpfgo's selftests that read buffers, from a checkout, in copies: as they are, and through perfchan. As root:
#
#   docs/ports/libbpfgo/run.sh CHECKOUT
#
# The checkout needs its submodule libbpf, and this machine clang, Go, libelf, zlib, ping and sys/sdt.h. All run on this machine's kernel,
# also probe-ringbuf, which would start one of its own by vng.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$1" && pwd)
work=$(mktemp -d)
mounted=$(mountpoint -q /sys/fs/bpf || echo yes)
trap '[ -z "$mounted" ] || umount /sys/fs/bpf; rm -rf "$work"' EXIT
[ -z "$mounted" ] || mount -t bpf bpf /sys/fs/bpf
mkdir "$work/bin"
install /dev/stdin "$work/bin/sudo" <<<$'#!/bin/sh\nexec "$@"'
install /dev/stdin "$work/bin/vng" <<<$'#!/bin/bash\nexec bash -c "${!#}"'
CPATH=/usr/include/$(uname -m)-linux-gnu
export CPATH GOFLAGS=-mod=mod PATH=$work/bin:$PATH

for variant in as-it-is drop-in; do
	cp -r "$checkout" "$work/$variant"
	sed -i 's/return fmt.Errorf("error setting rlimit.*/return nil/' "$work/$variant/module.go" # it may not be ours to raise
	for main in "$work/$variant"/selftest/*/main.go; do
		grep -qE 'Init(Perf|Ring)Buf' "$main" || continue
		test=$(dirname "$main")
		[ -e /sys/bus/event_source/devices/kprobe ] || sed -i -f "$here/tracepoint.sed" "$test"/*.bpf.c "$main"
		if [ $variant = drop-in ]; then
			sed -i -f "$here/dropin.sed" "$main"
			go -C "$test" mod edit -require github.com/ringfold/ringfold@v0.0.0 -replace "github.com/ringfold/ringfold=$(git -C "$here" rev-parse --show-toplevel)"
		fi
		make -s -C "$test" run-static >"$work/log" 2>&1 && result=passed || result="failed: $(grep -a ERROR "$work/log" | head -1)"
		echo "$variant ${test##*/}: $result"
	done
done
