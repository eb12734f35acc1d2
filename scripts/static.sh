#!/usr/bin/env bash
# Builds the tool and the examples as static programs, into build/static, and looks into them: see docs/static.md.
#
#   scripts/static.sh --look PROGRAM   only looks into one
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C
out=$PWD/build/static
die() { echo "static: $*" >&2; exit 1; }

# netgo and osusergo: libbpfgo imports net, which would call glibc's getaddrinfo, and that loads shared libraries after all.
tags=static_build,netgo,osusergo

# needed prints the shared libraries that a program loads.
needed() { readelf -dW "$1" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'; }

# one_libbpf fails if a program has not exactly one libbpf, be it its own or a shared library.
one_libbpf() {
	local own shared
	own=$(readelf -sW "$1" | awk '$7 != "UND" && $8 == "perf_buffer__new"' | wc -l)
	shared=$(needed "$1" | grep -c '^libbpf\.so' || :)
	[ $((own + shared)) = 1 ] || die "$1 has $own libbpf of its own, and loads $shared"
}

# is_static fails if a program needs any other file.
is_static() {
	! readelf -lW "$1" | grep -w INTERP || die "$1 has an interpreter"
	[ -z "$(needed "$1")" ] || die "$1 loads $(needed "$1")"
	! ldd "$1" 2>/dev/null || die "$1 loads these"
}

if [ "${1:-}" = --look ]; then
	is_static "$2"
	one_libbpf "$2"
	exit
fi

rm -rf "$out"
mkdir -p "$out"
for directory in cmd/ringfold/ examples/*/; do # each may be a module of its own
	grep -qs '^package main$' "$directory"*.go || continue
	program=$out/$(basename "$directory")
	warnings=$(scripts/env.sh go -C "$directory" build -trimpath -tags "$tags" -o "$program" . 2>&1) || die "$warnings"
	warnings=$(grep -v '^go: downloading ' <<<"$warnings" || :)
	[ -z "$warnings" ] || die "the linker complains: $warnings"
	is_static "$program"
	one_libbpf "$program"
	echo "static: ${program#"$PWD/"}, $(du -h "$program" | cut -f1)"
done
"$out/ringfold" version

# Linked the usual way, a program has no more than one either.
dynamic=$PWD/build/static-not
scripts/env.sh go -C examples build -o "$dynamic" ./ordered
one_libbpf "$dynamic"
rm "$dynamic"
