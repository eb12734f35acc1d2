#!/usr/bin/env bash
# Runs the kernel tests in a virtual machine with another kernel and other CPUs, and ends with their exit status:
#
#   KERNEL=6.1 CPUS=8 ARCH=amd64 TESTS='kernel soak' ARGS= scripts/vm/run.sh
#
# KERNEL is one of Debian's (5.10, 6.1, 6.12, 7.2), or the path of an image. TESTS names what runs: kernel (lab/kernel, and perfchan),
# oldest (the one of these tests that runs on Linux 4.18, without BTF), flight, ringbuf, grace, cgo (the kernel
# tests of these packages), short (kernel without the longest), wide (a few of those that take many CPUs), soak (soak-exact and
# soak-slack, 15 s each), soak-sources (several sources that come and go, 15 s), conformance (all its scenarios, with CPUs that go offline), ci (a few of all), overcommit (both soaks for 60 s, at a rate at which the reader keeps up: with more
# CPUs than the host has, for lateness), steady (soaks of 6 s at a rate that the reader follows: exact, by default and by each
# way to wait that works on all kernels, and by slacks of 1 ms and 100 ms; for delays), harm, delay and producers (these benchmarks of bench/, whose figures are in the log).
# ARGS goes to each of these programs; with ARGS alone, TESTS is kernel: ARGS='-test.run Hotplug'. LIMIT is how long the
# machine may run. LIBBPF=no builds the tests with perfbuf_nolibbpf. APPEND is for the kernel's command line: 'isolcpus=3 nohz_full=3 rcu_nocbs=3', for instance.
#
# ACCEL is what emulates the machine: kvm, or tcg, which is software and takes several times as long. Without it, that is KVM where
# this machine has it; found broken, it is not tried again.
#
# All that it prints is in build/vm/KERNEL-CPUS.log, what it comes to in build/vm/KERNEL-CPUS.result.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export LC_ALL=C LIMIT=${LIMIT:-60m}
kernel=${KERNEL:-6.1} cpus=${CPUS:-4} arch=${ARCH:-$(go env GOHOSTARCH)} args=${ARGS:-} accel=${ACCEL:-}
tests=${TESTS:-}
[ -n "$tests" ] || tests=$([ -n "$args" ] && echo kernel || echo kernel ringbuf grace cgo soak)
name=${kernel##*/}-$cpus
[ "$arch" = amd64 ] || name=$name-$arch
log=build/vm/$name.log
broken=build/vm/kvm-broken # says why
say() { echo "vm: $*"; }

case $accel in
kvm | tcg) ;;
'')
	accel=tcg
	if [ "$arch" = "$(go env GOHOSTARCH)" ] && [ -w /dev/kvm ]; then
		if [ -e "$broken" ]; then
			say "software emulation, as KVM is broken here: $(<"$broken") (ACCEL=kvm tries again)"
		else
			accel=kvm
		fi
	fi
	;;
*) say "ACCEL is kvm or tcg, not $accel" >&2; exit 1 ;;
esac

mkdir -p build/vm
dir=$(mktemp -d build/vm/run.XXXXXX)
trap '[ ! -s "$log.pid" ] || kill "$(<"$log.pid")" 2>/dev/null || :; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
mkdir "$dir/add"
scripts/vm/plan.sh "$tests" "$args" >"$dir/add/plan"
exec 9>build/vm/lock
flock 9 # another run may build the same
if grep -q ' /bench ' "$dir/add/plan"; then # not in each machine: it takes the peers' modules
	[ "$arch" = "$(go env GOHOSTARCH)" ] || { say "bench is built for this machine's architecture only" >&2; exit 1; }
	scripts/env.sh go -C bench build -tags static_build -ldflags '-s -w -extldflags -Wl,--no-warnings' -o "$PWD/$dir/add/bench" .
fi
if grep -q ' /conformance ' "$dir/add/plan"; then
	CGO_ENABLED=0 GOARCH=$arch go -C conformance build -ldflags '-s -w' -o "$PWD/$dir/add/" . ./readers/ringfold
fi
image=$(scripts/vm/kernel.sh "$kernel" "$arch")
initramfs=$(scripts/vm/initramfs.sh "$arch")
# The kernel unpacks one archive after the other.
(cd "$dir/add" && find . -type f | cpio --quiet -o -H newc -R 0:0) | cat "$initramfs" - >"$dir/initramfs"
flock -u 9

awk=(awk)
case $(awk -W version 2>&1 </dev/null) in mawk*) awk+=(-W interactive) ;; esac # or it holds lines back

# machine runs it, in the background, as only wait gives way to a signal.
machine() {
	say "$kernel, $cpus CPUs, $accel: ${tests//,/ } $args"
	{
		scripts/vm/machine.sh "$arch" "$cpus" "$accel" "$image" "$dir/initramfs" "$log" |
			"${awk[@]}" -v result="build/vm/$name.result" -f scripts/vm/summary.awk
	} &
	wait $! && status=0 || status=1
}

why=''
if [ "$accel" = kvm ]; then
	machine
	why=$(sed -n 's/^### BROKEN //p' "$log")
	if [ -z "$why" ]; then
		rm -f "$broken"
	elif [ -z "${ACCEL:-}" ]; then
		say "going on under software emulation"
		accel=tcg
	fi
fi

# A guest under software emulation may die before anything of ours runs, or later when the kernel patches its own code, as it
# does when a tracepoint is attached to: threads of QEMU before 8.1 may still see the breakpoint that was there meanwhile. That tells
# nothing of ours.
for attempt in 1 2 3; do
	[ "$accel" = tcg ] || break
	[ "$attempt" = 1 ] || say "the emulated machine died by itself; once more"
	machine
	! grep -qE '### (BEGIN|DONE)' "$log" || grep -q 'int3: 0000 \[#1\]' "$log" || break
done
# The same guest has come to life without KVM: so it was KVM.
if [ "$accel" = tcg ] && [ -n "$why" ] && grep -q '### BEGIN' "$log"; then echo "$why" >"$broken"; fi
say "all output: $log"
exit "$status"
