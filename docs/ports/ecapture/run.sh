#!/usr/bin/env bash
# Builds eCapture from a checkout, in copies: as it is, and with the drop-ins for cilium/ebpf's readers. Runs these in turn, as root, and
# eCapture's own --perf-reorder, on the TLS of load.go, and prints in which order it showed 2,000 requests and answers:
#
#   docs/ports/ecapture/run.sh CHECKOUT [TURNS [PAUSE]]
#
# PAUSE, 1ms by default, is between two requests of a connection. It takes Go, clang, bpftool and libpcap's headers. EARLY are messages shown
# after a later one of their connection, MISSING those neither shown nor reported lost.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$1" && pwd) turns=${2:-3} pause=${3:-1ms}
work=$(mktemp -d)
trap 'jobs -p | xargs -r kill; rm -rf "$work"' EXIT
go build -o "$work/load" "$here/load.go"

for variant in as-it-is drop-in; do
	copy=$work/$variant
	cp -r "$checkout" "$copy"
	sed -i 's/^\treturn opts$/\topts.RLimit = nil \/\/ it may not be ours to raise\n&/' "$copy/internal/probe/gotls/gotls_probe.go"
	if [ $variant = drop-in ]; then
		sed -i 's,"github.com/cilium/ebpf/\(perf\|ringbuf\)"$,"github.com/ringfold/ringfold/dropin/\1",' "$copy/internal/probe/base/base_probe.go"
		go -C "$copy" mod edit -require github.com/ringfold/ringfold@v0.0.0 -replace "github.com/ringfold/ringfold=$(git -C "$here" rev-parse --show-toplevel)"
	fi
	make -s -C "$copy" kern/gotls_kern.o >/dev/null
	go -C "$copy" run -mod=mod github.com/shuLhan/go-bindata/cmd/go-bindata -tags ebpfassets -pkg assets -o assets/ebpf_probe.go bytecode/gotls_kern_core.o
	go -C "$copy" build -mod=mod -tags linux,netgo,ebpfassets,dynamic -o ecapture .
done

# run NAME VARIANT ARGUMENT... prints the figures of one run.
run() {
	"$work/$2/ecapture" gotls --elfpath "$work/load" --btf 1 --debug "${@:3}" >"$work/log" 2>&1 &
	until grep -q 'started successfully' "$work/log"; do
		kill -0 $! 2>/dev/null || { cat "$work/log" >&2; exit 1; }
		sleep 0.1
	done
	sleep 1
	"$work/load" 250 "$pause"
	local size=-1
	until [ "$size" = "$(stat -c %s "$work/log")" ]; do
		size=$(stat -c %s "$work/log")
		sleep 3
	done
	kill -INT $!
	wait $!
	sed 's/\x1b\[[0-9;]*m//g' "$work/log" | awk -v name="$1" '
		match($0, /perf dispatch .*mono_ns=/) {
			ns = substr($0, RSTART + RLENGTH) + 0
			if (ns < latest) { behind++; if (latest - ns > most) most = latest - ns } else latest = ns
		}
		match($0, /lost_samples=/) { lost += substr($0, RSTART + RLENGTH) }
		/^(answer to )?request / {
			split($NF, at, "/"); message = 2 * at[2] + /^answer/; shown++
			if (message < last[at[1]]) early++; else last[at[1]] = message
		}
		END { printf "%s: shown %d out_of_order %d by_at_most_us %d early %d lost %d missing %d\n", name, shown, behind, most / 1000, early, lost, 2000 - shown - lost }'
}

for ((turn = 0; turn < turns; turn++)); do
	run as-it-is as-it-is
	run perf-reorder as-it-is --perf-reorder
	run drop-in drop-in
done
