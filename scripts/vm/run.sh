#!/usr/bin/env bash
# Runs the kernel tests in a virtual machine with another kernel and other CPUs, and ends with their exit status:
#
#   KERNEL=6.1 CPUS=8 ARCH=amd64 TESTS='perfbuf soak' ARGS= scripts/vm/run.sh
#
# KERNEL is one of Debian's (5.10, 6.1, 6.12, 7.2). TESTS names what runs: perfbuf, grace, cgo (the kernel tests of these
# packages), short (perfbuf without the longest), wide (a few of those that take many CPUs), soak (soak-exact and
# soak-slack, 15 s each), ci (a few of all), overcommit (both soaks for 60 s, at a rate at which the reader keeps up: with more
# CPUs than the host has, for lateness).
# ARGS goes to each of these programs; with ARGS alone, TESTS is perfbuf: ARGS='-test.run Hotplug'. LIMIT is how long the
# machine may run. All that it prints is in build/vm/KERNEL-CPUS.log, what it comes to in build/vm/KERNEL-CPUS.result.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export LC_ALL=C
kernel=${KERNEL:-6.1} cpus=${CPUS:-4} arch=${ARCH:-$(go env GOHOSTARCH)} args=${ARGS:-} limit=${LIMIT:-60m}
tests=${TESTS:-}
[ -n "$tests" ] || tests=$([ -n "$args" ] && echo perfbuf || echo perfbuf grace cgo soak)
quoted=$(xargs -r printf ' %q' <<<"$args") # for the guest's shell
name=$kernel-$cpus
[ "$arch" = amd64 ] || name=$name-$arch
log=build/vm/$name.log
say() { echo "vm: $*"; }

# Stress that takes minutes under software emulation, and tells no more of another kernel than the rest does.
long='OversizeSmallRing|Trickle|KernelStreams|CloseUnderLoad|Alternating|Payloads|AllocationsOfWraps|CloseRaces|CancelRace|ReopenWhile|DoorbellStress'

# What matters with many CPUs, which are slow under software emulation.
order='Kernel(Exact|Order|Spill|Unreported|Loss)'

# What CI has time for.
few='Kernel(Exact|Order|Spill|Unreported|Wait|Pause|Shutdown|Loss|Hotplug|Replug|Sleepable)'

# plan prints what the guest runs.
plan() {
	local test mode
	local tests=" ${tests//,/ } "
	tests=${tests/ soak / soak-exact soak-slack }
	for test in $tests; do
		case $test in
		perfbuf) echo "run perfbuf /perfbuf.test -test.v -test.timeout 30m -test.run Kernel$quoted" ;;
		short) echo "run perfbuf /perfbuf.test -test.v -test.timeout 30m -test.run Kernel -test.skip '$long'$quoted" ;;
		wide) echo "run perfbuf /perfbuf.test -test.v -test.timeout 30m -test.run '$order' -test.skip '$long'$quoted" ;;
		grace) echo "run grace /grace.test -test.v -test.short -test.timeout 30m$quoted" ;;
		cgo) echo "run cgo /cgo.test -test.v -test.timeout 30m -test.skip TestOldHeaders$quoted" ;; # that one takes a C compiler
		soak-exact | soak-slack) echo "run $test /soak -quiet -mode ${test#soak-} -duration 15s$quoted" ;;
		ci)
			echo "run perfbuf /perfbuf.test -test.v -test.timeout 10m -test.run '$few' -test.skip '$long'$quoted"
			echo "run soak-exact /soak -quiet -mode exact -duration 10s"
			;;
		overcommit)
			for mode in slack exact; do
				echo "run soak-$mode /soak -quiet -mode $mode -duration 60s -load 6 -rate 300 -hogs 0 -bursts=false$quoted"
			done
			;;
		*)
			say "TESTS: unknown $test" >&2
			return 1
			;;
		esac
	done
}

mkdir -p build/vm
dir=$(mktemp -d build/vm/run.XXXXXX)
trap '[ ! -e "$dir/pid" ] || kill "$(cat "$dir/pid")" 2>/dev/null || :; rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
mkdir "$dir/add"
plan >"$dir/add/plan"
exec 9>build/vm/lock
flock 9 # another run may build the same
image=$(scripts/vm/kernel.sh "$kernel" "$arch")
initramfs=$(scripts/vm/initramfs.sh "$arch")
# The kernel unpacks one archive after the other.
(cd "$dir/add" && find . -type f | cpio --quiet -o -H newc -R 0:0) | cat "$initramfs" - >"$dir/initramfs"
flock -u 9

case $arch in
amd64) machine=(qemu-system-x86_64 -machine pc) console=ttyS0 cpu=max ;;
arm64) machine=(qemu-system-aarch64 -machine 'virt,gic-version=3') console=ttyAMA0 cpu=max,pauth-impdef=on ;; # real pointer authentication is slow
esac
[ "$arch" != "$(go env GOHOSTARCH)" ] || [ ! -w /dev/kvm ] || machine+=(-accel kvm) # the first that works is taken
machine+=(-accel "tcg,thread=multi" -cpu "$cpu" -smp "$cpus" -m "$((2 + cpus / 16))G" -nographic -no-reboot -nic none)

awk=(awk)
case $(awk -W version 2>&1 </dev/null) in mawk*) awk+=(-W interactive) ;; esac # or it holds lines back

# A guest under software emulation may die before anything of ours runs, or later when the kernel patches its own code, as it
# does when a tracepoint is attached to: threads of QEMU before 8.1 may still see the breakpoint that was there meanwhile. That tells
# nothing of ours. It happens less often at boot if the kernel need not doubt the time stamp counter.
for attempt in 1 2 3; do
	[ "$attempt" = 1 ] || say "the emulated machine died by itself; once more"
	say "$kernel, $cpus CPUs: ${tests//,/ } $args"
	{
		timeout -k 10 "$limit" "${machine[@]}" -pidfile "$dir/pid" -kernel "$image" -initrd "$dir/initramfs" \
			-append "console=$console panic=-1 quiet loglevel=1 tsc=reliable" </dev/null 2>&1 |
			sed -u 's/\r$//' | tee "$log" | "${awk[@]}" -v result="build/vm/$name.result" -f scripts/vm/summary.awk
	} &
	wait $! && status=0 || status=1 # in the background, as only wait gives way to a signal
	! grep -qE '### (BEGIN|DONE)' "$log" || grep -q 'int3: 0000 \[#1\]' "$log" || break
done
say "all output: $log"
exit "$status"
