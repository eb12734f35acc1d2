#!/usr/bin/env bash
# Runs all tests. The library, whose memory and concurrency are at stake, is tested twice: plainly, where events pass without libbpf; and
# with libbpf, the race detector, and poisoning what must not be kept. What uses it, examples and tools, is tested once, as the latter.
#
#   TIMEOUT=1h scripts/test.sh    how long a package's tests may take, before they end and show what all goroutines do
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
packages=(./cgo/... ./dropin/... ./internal/... ./lab/... ./perfbuf/...)
events='/(dropin|lab|perfbuf|internal/(engine|raw|simulate|soak|stream))(/|$)' # those through which events pass

# run DIRECTORY ARGUMENT... runs tests of the module there.
run() {
	echo "go test ${*:2} ($1)"
	scripts/env.sh go -C "$1" test -count=1 -timeout "${TIMEOUT:-20m}" "${@:2}"
}

test_library() {
	local pass others
	mapfile -t pass < <(go list "${packages[@]}" | grep -E "$events")
	mapfile -t others < <(go list "${packages[@]}" | grep -vE "$events")
	# libbpfgo, which loads the BPF programs of kernel tests, still needs libbpf.
	CGO_LDFLAGS=-lbpf run . -tags perfbuf_nolibbpf "${pass[@]}"
	run . "${others[@]}"
	run . -race -tags perfbuf_poison "${packages[@]}"
}

test_tools() {
	local rest nested directory
	mapfile -t rest < <(go list ./... | grep -vE "^$(go list -m)/(cgo|dropin|internal|lab|perfbuf)(/|\$)")
	mapfile -t nested < <(find . \( -path ./build -o -path ./libbpf -o -path ./.git \) -prune -o -path './*/go.mod' -printf '%h\n' | sort)
	run . -race -tags perfbuf_poison "${rest[@]}"
	for directory in "${nested[@]}"; do
		case $directory in
		./bench | ./deploy) run "$directory" ./... ;; # figures and packages: nothing that shares memory is new there
		*) run "$directory" -race -tags perfbuf_poison ./... ;;
		esac
	done
}

# Both at once, as the library's tests mostly wait for the kernel. Each has a process group, to be ended as a whole.
mkdir -p build
set -m
# shellcheck disable=SC2154 # it is
trap 'for group in $(jobs -p); do kill -- "-$group" 2>/dev/null || :; done' EXIT
trap 'exit 1' INT TERM
test_tools >build/test-tools.log 2>&1 </dev/null &
tools=$!
test_library </dev/null &
library=$!
wait -n -p ended || { [ "$ended" != "$tools" ] || cat build/test-tools.log; exit 1; }
wait "$tools" || { cat build/test-tools.log; exit 1; }
wait "$library"
cat build/test-tools.log
