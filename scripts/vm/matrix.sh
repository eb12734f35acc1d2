#!/usr/bin/env bash
# Runs the kernel tests with several kernels and numbers of CPUs, one machine after the other, and prints a table:
#
#   scripts/vm/matrix.sh                        all of them
#   KERNELS='6.1 7.2' CPUS='1 4' scripts/vm/matrix.sh
#
# TESTS and ARGS are those of scripts/vm/run.sh, but TESTS leaves out the longest tests, and those that are slow with more than 8 CPUs.
# A failure does not end it, but is its status.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export ARCH=${ARCH:-$(go env GOHOSTARCH)}
trap 'exit 1' INT TERM
machines=()
for kernel in ${KERNELS:-5.10 6.1 6.12 7.2}; do
	for cpus in ${CPUS:-1 4 32}; do machines+=("$kernel-$cpus"); done
done
[ -n "${KERNELS:-}${CPUS:-}" ] || machines+=(6.12-64)

row='%-7s %4s %7s %7s %8s   %-14s %-13s %8s\n'
failed=0 table=''
for machine in "${machines[@]}"; do
	file=build/vm/$machine.result
	[ "$ARCH" = amd64 ] || file=build/vm/$machine-$ARCH.result
	rm -f "$file"
	verdict=''
	tests='short grace cgo soak conformance'
	[ "${machine#*-}" -le 8 ] || tests='wide overcommit'
	KERNEL=${machine%-*} CPUS=${machine#*-} TESTS=${TESTS:-$tests} scripts/vm/run.sh || { failed=1 verdict=' FAIL'; }
	read -r pass fail skip exact slack seconds 2>/dev/null <"$file" || pass='-' fail='-' skip='-' exact='-' slack='-' seconds='-'
	# shellcheck disable=SC2059
	table+=$(printf "$row" "${machine%-*}" "${machine#*-}" "$pass" "$fail" "$skip" "$exact" "$slack" "$seconds$verdict")$'\n'
done
echo
echo 'exact: late / out of order / all outputs accounted for, as far as the kernel counts; slack: late'
# shellcheck disable=SC2059
printf "$row" kernel CPUs passed failed skipped exact slack seconds
printf '%s' "$table"
exit "$failed"
