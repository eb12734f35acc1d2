#!/usr/bin/env bash
# Builds the library and runs its kernel tests with several versions of libbpf, made from the sources in Debian's releases:
#
#   scripts/libbpf-matrix.sh             all of them
#   scripts/libbpf-matrix.sh trixie sid  those of these releases
#
# Each version is linked dynamically, as a distribution's package is; statically (-tags static_build); and as the submodule is, an
# archive in a dynamic program, from 1.5 on: older sources bring kernel headers that are too old for libbpfgo. libbpfgo takes
# libbpf 1.4: with older ones, the tests that need no libbpfgo run. Below 1.0 the build is to fail, and to say why.
# Everything is kept in build/libbpf-matrix. Kernel tests need root; without, they are skipped.
# Exit status: 1 if anything failed, or there was no version at all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/apt.sh
export LC_ALL=C
dir=$PWD/build/libbpf-matrix
table=$dir/table
failures=0
libbpfgo=github.com/aquasecurity/libbpfgo
# What meets libbpf: rings set up, given back and rebuilt, maps made, errors told.
tests='Kernel(Open|Close|Hotplug|Exact|Loss|Outputs|Sizes|Copies|Wraps|NoTime|ExplicitCPUs|Records|Reopen|NewPerf|Second|Unprivileged)|Version'
long='CloseUnderLoad|CloseRaces|ReopenWhile'
lean=netgo,osusergo # less to compile anew for each version

say() { echo "libbpf-matrix: $*"; }
at_least() { printf '%s\n' "$2" "$1" | sort -CV; }
row() { printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$@" >>"$table"; }
failed() { row "$1" "$2" - - - "FAILED: $3"; failures=1; say "$1, $2: FAILED: $3"; }

# without_libbpfgo prints the library's packages that build without libbpfgo.
without_libbpfgo() {
	go list -f '{{if .GoFiles}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./cgo ./dropin/... ./perfbuf/... ./internal/... | grep -v "$libbpfgo" | cut -d' ' -f1
}

# complaint prints what a failed build comes down to.
complaint() { { grep -m1 -E 'error|undefined|could not' "$1" || head -n1 "$1"; } | sed 's|^/[^ ]*/||'; }

# try VERSION LINKED PREFIX TAGS tests one way to link one version.
try() {
	local version=$1 linked=$2 tags=$4 log=$dir/$1-$2.log note='' status=0 packages
	export LIBBPF_PREFIX=$3
	export CGO_LDFLAGS="-O2 -g -Wl,-rpath,$3/lib" # Go's default, and where the program finds libbpf.so
	say "$version, $linked"
	if [ "$(scripts/env.sh pkg-config --modversion libbpf)" != "$version" ]; then
		failed "$version" "$linked" "pkg-config names another libbpf"
		return
	fi
	mapfile -t packages < <(without_libbpfgo)
	if ! scripts/env.sh go build -tags "$tags" "${packages[@]}" >"$log" 2>&1; then
		failed "$version" "$linked" "$(complaint "$log")"
		return
	fi
	packages=(./internal/libbpftest)
	if scripts/env.sh go build -tags "$tags" "$libbpfgo" >"$log.libbpfgo" 2>&1; then
		packages+=(./cgo ./internal/grace)
		test_with -run "$tests" -skip "$long" ./perfbuf ./lab/kernel
	else
		note="the rest needs libbpfgo, which does not build: $(complaint "$log.libbpfgo")"
		if at_least "$version" 1.4; then
			failed "$version" "$linked" "$note"
			return
		fi
	fi
	test_with "${packages[@]}"
	if [ "$status" != 0 ]; then
		note="see ${log#"$PWD/"}"
		failures=1
		grep -E '^(--- FAIL|FAIL|panic)' "$log" || tail "$log"
	fi
	row "$version" "$linked" "$(grep -c '^--- PASS' "$log")" "$(grep -c '^--- FAIL' "$log")" "$(grep -c '^--- SKIP' "$log")" "$note"
}

# test_with ARGUMENT... runs tests for try.
test_with() { scripts/env.sh go test -count=1 -timeout 600s -v -tags "$tags" "$@" >>"$log" 2>&1 || status=1; }

# too_old VERSION PREFIX expects the compile error that names the cause and the fix. Headers of this machine's libbpf, which the
# compiler would take what is missing from, are out of sight meanwhile.
too_old() {
	local log=$dir/$1.log
	# shellcheck disable=SC2016 # for that shell
	if LIBBPF_PREFIX=$2 unshare --map-root-user --mount sh -c \
		'[ ! -d /usr/include/bpf ] || mount -t tmpfs none /usr/include/bpf; exec scripts/env.sh go build ./cgo' >"$log" 2>&1; then
		failed "$1" - 'builds, although it is too old'
	elif grep -q 'ringfold needs libbpf 1.0 or newer' "$log"; then
		row "$1" - - - - "refused, as it should be: $(grep -m1 -oE 'ringfold needs libbpf[^"]*' "$log")"
	else
		failed "$1" - "fails without the readable error: $(complaint "$log")"
	fi
}

mkdir -p "$dir"
: >"$dir/go.mod" # Go's ./... stops at a module
printf 'libbpf\tlinked\tpassed\tfailed\tskipped\tnote\n' >"$table"
done=' '
[ $# -gt 0 ] || set -- bullseye bookworm bookworm-backports trixie sid experimental
for release in "$@"; do
	if ! source=$(libbpf_sources "$release" "$dir" 2>"$dir/$release.log"); then
		say "no sources of libbpf in $release: $(tail -n1 "$dir/$release.log")"
		continue
	fi
	version=${source##*/libbpf-}
	case $done in *" $version "*) continue ;; esac
	done+="$version "
	if ! scripts/libbpf.sh "$source" "$dir/$version" system >"$dir/$version.log" 2>&1; then
		failed "$version" - "libbpf itself does not build: see ${dir#"$PWD/"}/$version.log"
		continue
	fi
	if ! at_least "$version" 1.0; then
		too_old "$version" "$dir/$version"
		continue
	fi
	try "$version" dynamic "$dir/$version" "$lean"
	archive=$dir/$version
	if at_least "$version" 1.5; then
		archive=$dir/$version-submodule
		scripts/libbpf.sh "$source" "$archive"
		try "$version" submodule "$archive" "$lean"
	fi
	try "$version" static "$archive" "$lean,static_build"
done
[ "$done" != ' ' ] || { say 'no version at all'; failures=1; }
echo
expand -t 9,26,34,42,51 "$table"
exit "$failures"
