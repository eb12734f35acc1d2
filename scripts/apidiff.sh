#!/usr/bin/env bash
# Shows how the exported API differs from that of the last release: the newest version tag among HEAD's ancestors.
#
#   scripts/apidiff.sh           what has changed; the exit status says whether it could be compared
#   scripts/apidiff.sh v0.1.1    fails, too, if that version does not allow for the changes: a program must build with a newer patch
#                                release, and from v1 on with a newer minor one
#
# The packages are those that users import: perfbuf, those below it, dropin, and cgo. Internal ones and programs are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=${1:-}
apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e
out=$PWD/build/apidiff
die() { echo "apidiff: $*" >&2; exit 1; }

# An ancestor, so that a patch release of an older version is compared with what is before it.
base=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD 2>/dev/null || :)
[ "$base" != "$version" ] || base=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 'HEAD^' 2>/dev/null || :)
if [ -z "$base" ]; then
	echo 'apidiff: no release yet: nothing to compare with'
	exit
fi

rm -rf "$out"
mkdir -p "$out/old"
: >"$out/go.mod" # Go's ./... stops at a module
git archive "$base" | tar -C "$out/old" -x
GOBIN=$out go install "$apidiff" || die "cannot build $apidiff"

# export_api TREE DIRECTORY writes the API of each package that users import.
export_api() {
	local module package packages
	for module in . perfbuf/promperf perfbuf/otelperf; do
		[ -e "$1/$module/go.mod" ] || continue
		packages=$(go -C "$1/$module" list ./...) || die "cannot list the packages of $1/$module"
		for package in $(grep -vE '/(internal|examples|scripts|cmd)(/|$)' <<<"$packages"); do
			mkdir -p "$2/$package"
			(root=$PWD && cd "$1/$module" && "$root/scripts/env.sh" "$out/apidiff" -w "$2/$package/api" "$package") ||
				die "cannot read the API of $package in $1"
		done
	done
}
export_api "$out/old" "$out/api/old"
export_api . "$out/api/new"

broken=0
for package in $(cd "$out/api" && find old new -name api -printf '%P\n' | sort -u); do
	old=$out/api/old/$package new=$out/api/new/$package changes='' name=${package%/api}
	if [ ! -e "$old" ]; then
		changes='Compatible changes:
- a new package'
	elif [ ! -e "$new" ]; then
		changes='Incompatible changes:
- the package is gone'
	else
		changes=$("$out/apidiff" "$old" "$new")
	fi
	[ -z "$changes" ] || printf '%s\n%s\n' "$name, since $base:" "$changes"
	! grep -q '^Incompatible' <<<"$changes" || broken=1
done

# What must not differ, for programs to build as they are: v0.1.x, v1.x.
series() { if [[ $1 = v0.* ]]; then cut -d. -f1,2 <<<"$1"; else cut -d. -f1 <<<"$1"; fi; }
if [ $broken = 1 ] && [ -n "$version" ] && [ "$(series "$version")" = "$(series "$base")" ]; then
	die "programs for $base may not build with $version: choose a greater version"
fi
[ $broken = 1 ] || echo "apidiff: programs for $base build as they are"
