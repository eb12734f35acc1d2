#!/usr/bin/env bash
# Builds static programs into build/static, and looks into them: the tool without cgo, and the examples with libbpf inside. See
# docs/static.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C
out=$PWD/build/static
die() { echo "static: $*" >&2; exit 1; }

# needed prints the shared libraries that a program loads.
needed() { readelf -dW "$1" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p'; }

# has_libbpf fails if a program has not that many libbpfs, be they its own or shared libraries.
has_libbpf() {
	local own shared
	own=$(readelf -sW "$2" | awk '$7 != "UND" && $8 == "perf_buffer__new"' | wc -l)
	shared=$(needed "$2" | grep -c '^libbpf\.so' || :)
	[ $((own + shared)) = "$1" ] || die "$2 has $own libbpf of its own, and loads $shared"
}

rm -rf "$out"
mkdir -p "$out"
CGO_ENABLED=0 go -C cmd/ringfold build -trimpath -o "$out/ringfold" .
# netgo and osusergo: libbpfgo imports net, which would call glibc's getaddrinfo, and that loads shared libraries after all.
warnings=$(scripts/env.sh go -C examples build -trimpath -tags static_build,netgo,osusergo -o "$out/" ./... 2>&1) || die "$warnings"
warnings=$(grep -v '^go: downloading ' <<<"$warnings" || :)
[ -z "$warnings" ] || die "the linker complains: $warnings"
for program in "$out"/*; do
	! readelf -lW "$program" | grep -w INTERP || die "$program has an interpreter"
	[ -z "$(needed "$program")" ] || die "$program loads $(needed "$program")"
	has_libbpf "$([ "${program##*/}" = ringfold ] && echo 0 || echo 1)" "$program"
	echo "static: ${program#"$PWD/"}, $(du -h "$program" | cut -f1)"
done

# Linked the usual way, a program has no more than one either.
dynamic=$PWD/build/static-not
scripts/env.sh go -C examples build -o "$dynamic" ./ordered
has_libbpf 1 "$dynamic"
rm "$dynamic"
