#!/usr/bin/env bash
# Builds an adapter, conformance/readers/READER, into build/conformance/READER:
#
#   conformance/build.sh libbpf      one of aya, cilium, libbpf, libbpfgo, ringfold
#
# READER-nocgo is READER without cgo.
#
# Where that cannot be it says why, and exits with 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
reader=$1 out=$PWD/build/conformance/$1
source=conformance/readers/${reader%-nocgo}
mkdir -p build/conformance
if [ -e "$source/Cargo.toml" ]; then
	scripts/aya.sh "$source" adapter "$out" >/dev/null
elif [ -e "$source/main.c" ]; then
	read -ra flags <<<"$(scripts/env.sh pkg-config --cflags --libs libbpf)"
	${CC:-gcc} -O2 -Wall -o "$out" "$source"/*.c "${flags[@]}"
elif [ -e "$source/main.go" ]; then
	[ "$reader" = "${reader%-nocgo}" ] || export CGO_ENABLED=0
	scripts/env.sh go -C conformance build -o "$out" "./${source#conformance/}"
else
	echo "build.sh: there is no adapter $source" >&2
	exit 1
fi
