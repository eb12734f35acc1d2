#!/usr/bin/env bash
# Builds the conformance suite and the adapters of READERS, and runs SCENARIOS against them; arguments go to the suite.
#
#   READERS=ringfold,libbpf SCENARIOS=order scripts/conformance.sh -short
#
# READERS=all are those whose adapters can be built here. A reader NAME-WAY is NAME's adapter with way=WAY, NAME-nocgo the one built
# without cgo; a path is an adapter.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readers=${READERS:-ringfold}
mkdir -p build/conformance
CGO_ENABLED=0 go -C conformance build -o "$PWD/build/conformance/suite" .

build() { conformance/build.sh "$1" >"build/conformance/$1.log" 2>&1; }

if [ "$readers" = all ]; then
	readers=''
	for directory in conformance/readers/*/; do
		name=$(basename "$directory")
		[ "$name" != internal ] || continue
		if build "$name"; then
			readers=$readers,$name
		else
			echo "left out: $name: $(grep -v '^$' "build/conformance/$name.log" | tail -n 1)"
		fi
	done
	readers=ringfold,$(tr , '\n' <<<"${readers#,}" | grep -vx ringfold | paste -sd, -)
	readers=${readers%,}
else
	for reader in ${readers//,/ }; do
		case $reader in */*) continue ;; esac
		name=$reader
		[ -d "conformance/readers/${name%-nocgo}" ] || name=${reader%%-*}
		build "$name" || { cat "build/conformance/$name.log" >&2; exit 1; }
	done
fi
sudo=$([ "$(id -u)" = 0 ] || command -v sudo || :)
$sudo build/conformance/suite -readers "$readers" -scenarios "${SCENARIOS:-}" "$@"
