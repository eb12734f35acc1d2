#!/usr/bin/env bash
# Builds Tracee from a checkout, in copies: as it is, with perfchan's drop-in (dropin.sed), and ordered by its own times (times.sed). Runs
# these in turn, as root, and Tracee's own sorting, and prints in which order the events of 500 short processes came:
#
#   docs/ports/tracee/run.sh CHECKOUT [TURNS]
#
# EVENTS=sched_process_fork,... are those to trace, without system calls that are timed at their entry and output at their exit. The
# checkout needs its submodule 3rdparty/libbpf, and this machine what Tracee's Makefile asks for (clang, Go, libelf, zlib).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$1" && pwd) turns=${2:-3}
work=$(mktemp -d)
mounted=$(mountpoint -q /sys/kernel/tracing || echo yes)
trap '[ -z "$mounted" ] || umount /sys/kernel/tracing; rm -rf "$work"' EXIT
[ -z "$mounted" ] || mount -t tracefs tracefs /sys/kernel/tracing
go build -o "$work/order" "$here/order.go"
ln "$work/order" "$work/load"

for variant in as-it-is drop-in own-times; do
	copy=$work/$variant
	cp -r "$checkout" "$copy"
	if [ $variant != as-it-is ]; then
		sed -i -f "$here/dropin.sed" "$copy/pkg/ebpf/tracee.go" "$copy/pkg/ebpf/controlplane/controller.go"
		go -C "$copy" mod edit -require github.com/ringfold/ringfold@v0.0.0 -replace "github.com/ringfold/ringfold=$(git -C "$here" rev-parse --show-toplevel)"
	fi
	[ $variant != own-times ] || sed -i -f "$here/times.sed" "$copy/pkg/ebpf/tracee.go"
	make -s -C "$copy" bpf >/dev/null
	libbpf=$copy/dist/libbpf
	CC=clang PKG_CONFIG_PATH=$libbpf/obj CGO_CFLAGS=-I$libbpf/include CGO_LDFLAGS="-L$libbpf/obj -lbpf -lelf -lz" \
		go -C "$copy" build -mod=mod -tags core,ebpf,lsmsupport -o tracee ./cmd/tracee
done

# run NAME VARIANT ARGUMENT... prints the figures of one run.
run() {
	local figures
	figures=$("$work/order" "$work/$2/tracee" --capabilities bypass=true --signatures-dir "$work" --output json "${@:3}" --scope comm=load,sh \
		--events "${EVENTS:-sched_process_fork,sched_process_exec,sched_process_exit}" 2>"$work/log") || { cat "$work/log" >&2; exit 1; }
	echo "$1: $figures"
}

for ((turn = 0; turn < turns; turn++)); do
	run as-it-is as-it-is
	run sort-events as-it-is --output sort-events
	run drop-in drop-in
	run own-times own-times
done
