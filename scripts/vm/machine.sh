#!/usr/bin/env bash
# Runs a virtual machine to its end, and prints what its guest prints, also into LOG:
#
#   scripts/vm/machine.sh ARCH CPUS kvm|tcg KERNEL INITRAMFS LOG
#
# Where KVM is broken, as in virtual machines without real nesting, QEMU stops the guest with a message, or the guest never comes to
# life, and QEMU stays: then the machine is ended, and a last line "### BROKEN why" is printed. A guest that has begun may be silent:
# a test that hangs is no fault of KVM's. LIMIT is how long the machine may run, SILENCE the seconds in which the guest has to begin. APPEND
# is added to the kernel's command line.
set -euo pipefail
arch=$1 cpus=$2 accel=$3 kernel=$4 initramfs=$5 log=$6
silence=${SILENCE:-60} pid=$log.pid job=

case $arch in
amd64) machine=(qemu-system-x86_64 -machine pc) console=ttyS0 cpu=max ;;
arm64) machine=(qemu-system-aarch64 -machine 'virt,gic-version=3') console=ttyAMA0 cpu=max,pauth-impdef=on ;; # real pointer authentication is slow
esac
case $accel in
kvm) machine+=(-accel kvm) ;;
tcg) machine+=(-accel 'tcg,thread=multi') ;;
esac
machine+=(-cpu "$cpu" -smp "$cpus" -m "$((2 + cpus / 16))G" -nographic -no-reboot -nic none -kernel "$kernel" -initrd "$initramfs"
	# Guests under software emulation die at boot less often if they need not doubt the time stamp counter and the timer. CPUs that
	# come up together spin until the last one has: with 128 on two of the host's, that is never.
	-append "console=$console panic=-1 quiet loglevel=1 tsc=reliable no_timer_check cpuhp.parallel=0 ${APPEND:-}")

# end ends the machine, if need be once it has begun: timeout passes the signal on, and kills what does not heed it.
end() {
	until [ -s "$pid" ] || ! kill -0 "$job" 2>/dev/null; do sleep 0.1; done
	[ ! -s "$pid" ] || kill "$(<"$pid")" 2>/dev/null || :
}
trap 'end; rm -f "$pid"' EXIT
trap 'exit 1' INT TERM
: >"$log"
rm -f "$pid"
# shellcheck disable=SC2016 # for that shell
bash -c 'echo $$ >"$1"; exec timeout -k 10 "${@:2}"' - "$pid" "${LIMIT:-60m}" "${machine[@]}" </dev/null 2>&1 |
	sed -Eu 's/\r$//; s/\x1b(c|\[[0-9;?]*[A-Za-z])//g' | tee "$log" &
job=$!

stopped() { grep -m1 -oE '(KVM internal error|KVM: entry failed|emulation failure|kvm run failed).*' "$log"; }
begun() { grep -q '### KERNEL' "$log"; }
why=''
while [ "$accel" = kvm ] && kill -0 "$job" 2>/dev/null; do
	if why=$(stopped); then
		end
		break
	elif ! begun && [ "$SECONDS" -ge "$silence" ]; then
		why="the guest has said nothing in $silence s"
		end
		break
	fi
	sleep 1
done
wait "$job" || :
if [ "$accel" = kvm ] && [ -z "$why" ]; then
	why=$(stopped) || begun || why='the machine ended before the guest began'
fi
[ -z "$why" ] || echo "### BROKEN $why" | tee -a "$log"
