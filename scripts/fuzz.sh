#!/usr/bin/env bash
# Runs every fuzz target of the library and of the tool, one after the other, for FUZZTIME each (60s), and tells of each what it did. FUZZ, a
# regular expression, selects some. Ends with the first finding: the input is then a seed, and fails in `go test` from now on.
# What is interesting without failing is kept in Go's build cache, and used the next time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fuzztime=${FUZZTIME:-60s}
mkdir -p build
log=$PWD/build/fuzz.log

# The package comes behind its targets.
targets=
for module in . cmd/ringfold; do
	list=$(scripts/env.sh go -C "$module" test -list '^Fuzz' ./... 2>&1) || { echo "$list"; exit 1; }
	targets+=$(awk -v m="$module" '/^Fuzz/ { names[n++] = $1; next } /^ok/ { for (i = 0; i < n; i++) print m, $2, names[i]; n = 0 }' <<<"$list")$'\n'
done
targets=$(grep -E -- "${FUZZ:-.}" <<<"$targets") || { echo "fuzz: no target matches ${FUZZ:-.}" >&2; exit 1; }

while read -r module package target; do
	dir=$(go -C "$module" list -f '{{.Dir}}' "$package")
	code=0
	# -parallel 2: leave room for others. Making inputs small must not take the time that is for finding them.
	scripts/env.sh go -C "$module" test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" -fuzzminimizetime 100x -parallel 2 "$package" >"$log" 2>&1 </dev/null || code=$?
	did=$(sed -n 's/.*\(execs: [0-9]*\).*\(new interesting: [0-9]*\) \((total: [0-9]*)\).*/\1, \2 \3/p' "$log" | tail -n 1)
	printf '%-44s %s\n' "${dir#"$PWD"/} $target" "${did:-nothing done}"
	if [ "$code" != 0 ]; then
		cat "$log"
		seed=$(sed -n 's/^ *Failing input written to //p' "$log" | tail -n 1)
		[ -z "$seed" ] || echo "fuzz: $target fails with the new seed ${dir#"$PWD"/}/$seed"
		exit "$code"
	fi
done <<<"$targets"
