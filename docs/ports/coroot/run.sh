#!/usr/bin/env bash
# Builds coroot-node-agent's tracer from a checkout, in a copy: as it is, with the drop-in, and with one stream of all maps. Runs each in
# turn, as root, and prints how many requests it matched to their connections, and how many samples it lost:
#
#   docs/ports/coroot/run.sh CHECKOUT [TURNS [REQUESTS]]
#
# It takes Go, clang, and libbpf's headers. PAGES=4 makes each ring so many times as large. Without kprobes, what they report is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$1" && pwd) turns=${2:-3} requests=${3:-20000}
work=$(mktemp -d)
mounted=$(mountpoint -q /sys/kernel/tracing || echo yes)
conntrack=/proc/sys/net/netfilter/nf_conntrack_events # which the agent sets
events=$(cat $conntrack 2>/dev/null || :)
trap '[ -z "$mounted" ] || umount /sys/kernel/tracing; [ -z "$events" ] || echo "$events" >$conntrack; rm -rf "$work"' EXIT
[ -z "$mounted" ] || mount -t tracefs tracefs /sys/kernel/tracing

# The agent's Dockerfile compiles for several kernels; this is the newest of its variants.
mkdir -p "$work/include/uapi"
ln -s /usr/include/linux "$work/include/uapi/linux"
clang -w -g -O2 -target bpf -D__KERNEL_FROM=512 "-D__TARGET_ARCH_$(uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')" \
	-I"$work/include" -I"/usr/include/$(uname -m)-linux-gnu" -c "$checkout/ebpftracer/ebpf/ebpf.c" -o "$work/ebpf.o"

for variant in as-it-is drop-in stream; do
	copy=$work/$variant
	cp -r "$checkout" "$copy"
	cp "$here/match.go" "$copy"
	gzip -c "$work/ebpf.o" | base64 -w0 >"$copy/ebpftracer/program"
	cat >"$copy/ebpftracer/ebpf.go" <<'EOF'
package ebpftracer

import (
	_ "embed"
	"runtime"
)

type program = struct {
	version, flags string
	prog           []byte
}

//go:embed program
var newest []byte

var ebpfProgs = map[string][]program{runtime.GOARCH: {{"5.12", "", newest}}}
EOF
	tracer=$copy/ebpftracer/tracer.go
	sed -i "s/perCPUBufferSizePages: [0-9]*/& * ${PAGES:-1}/; s/if err != nil && programSpec.SectionName == .*/if err != nil { \/\/ no kprobes/" "$tracer"
	case $variant in
	drop-in) sed -i 's,"github.com/cilium/ebpf/perf","github.com/ringfold/ringfold/dropin/perf",' "$tracer" ;;
	stream) sed -i -f "$here/stream.sed" "$tracer" ;;
	esac
	if [ $variant != as-it-is ]; then
		go -C "$copy" mod edit -require github.com/ringfold/ringfold@v0.0.0 -replace "github.com/ringfold/ringfold=$(git -C "$here" rev-parse --show-toplevel)"
	fi
	CGO_ENABLED=0 go -C "$copy" build -mod=mod -o match match.go
done

for ((turn = 0; turn < turns; turn++)); do
	for variant in as-it-is drop-in stream; do
		figures=$(REQUESTS=$requests "$work/$variant/match" 2>"$work/log") || { cat "$work/log" >&2; exit 1; }
		lost=$(awk '/lost samples/ { n += $NF } END { print n + 0 }' "$work/log")
		echo "$variant: $figures lost $lost"
	done
done
