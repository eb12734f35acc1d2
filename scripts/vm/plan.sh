#!/usr/bin/env bash
# Prints what a guest runs, for scripts/vm/init:  scripts/vm/plan.sh 'kernel soak' [ARGUMENTS]
# The names are explained in scripts/vm/run.sh; the arguments go to each program.
set -euo pipefail
tests=" ${1//,/ } "
quoted=$(xargs -r printf ' %q' <<<"${2:-}") # for the guest's shell

# Stress that takes minutes under software emulation, and tells no more of another kernel than the rest does.
long='OversizeSmallRing|Trickle|KernelStreams|CloseUnderLoad|Alternating|Payloads|AllocationsOfWraps|CloseRaces|CancelRace|ReopenWhile|DoorbellStress'

# What matters with many CPUs, which are slow under software emulation.
order='Kernel(Wide|Exact|Order|Spill|Unreported|Loss)'

# What CI has time for.
few='Kernel(Exact|Order|Spill|Unreported|Wait|Pause|Shutdown|Loss|Hotplug|Replug|Older|Sleepable)'

tests=${tests/ soak / soak-exact soak-slack }
for test in $tests; do
	case $test in
	kernel)
		echo "run kernel /kernel.test -test.v -test.timeout 30m -test.run Kernel$quoted"
		echo "run perfchan /perfchan.test -test.v -test.timeout 30m -test.run Kernel$quoted"
		;;
	oldest) echo "run oldest /kernel.test -test.v -test.timeout 10m -test.run KernelOldest$quoted" ;;
	short)
		echo "run kernel /kernel.test -test.v -test.timeout 30m -test.run Kernel -test.skip '$long'$quoted"
		echo "run perfchan /perfchan.test -test.v -test.timeout 30m -test.run Kernel -test.skip '$long'$quoted"
		;;
	wide) echo "run kernel /kernel.test -test.v -test.timeout 30m -test.run '$order' -test.skip '$long'$quoted" ;;
	flight) echo "run flight /flight.test -test.v -test.timeout 10m -test.run Kernel$quoted" ;;
	ringbuf) echo "run ringbuf /ringbuf.test -test.v -test.timeout 10m$quoted" ;;
	grace) echo "run grace /grace.test -test.v -test.short -test.timeout 30m$quoted" ;;
	conformance) echo "run conformance /conformance -short -hotplug -patience 3m -idle 0.1 -adapters / -readers /ringfold -out /tmp/conformance.json$quoted" ;;
	cgo) echo "run cgo /cgo.test -test.v -test.timeout 30m -test.skip TestOldHeaders$quoted" ;; # that one takes a C compiler
	soak-exact | soak-slack | soak-sources) echo "run $test /soak -quiet -mode ${test#soak-} -duration 15s$quoted" ;;
	ci)
		echo "run kernel /kernel.test -test.v -test.timeout 30m -test.run '$few' -test.skip '$long'$quoted"
		echo "run perfchan /perfchan.test -test.v -test.timeout 30m -test.run '$few' -test.skip '$long'$quoted"
		echo "run ringbuf /ringbuf.test -test.v -test.timeout 30m"
		echo "run flight /flight.test -test.v -test.timeout 30m -test.run Kernel -test.skip UnderLoad"
		echo "run soak-exact /soak -quiet -mode exact -duration 10s"
		;;
	overcommit)
		for mode in slack exact; do
			echo "run soak-$mode /soak -quiet -mode $mode -duration 60s -load 6 -rate 300 -hogs 0 -bursts=false$quoted"
		done
		;;
	steady)
		load='-duration 6s -load 4 -rate 300 -hogs 0 -bursts=false'
		echo "run soak-exact /soak -quiet -mode exact $load$quoted"
		for by in bind-mount map-in-map membarrier; do echo "run soak-exact-$by /soak -quiet -mode exact -barriers $by $load$quoted"; done
		for slack in 1ms 100ms; do echo "run soak-slack-$slack /soak -quiet -mode slack -slack $slack $load$quoted"; done
		;;
	harm | delay | producers) echo "run bench-$test /bench -bench $test -out /tmp/bench.json$quoted" ;;
	*)
		echo "vm: TESTS: unknown $test" >&2
		exit 1
		;;
	esac
done
