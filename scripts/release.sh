#!/usr/bin/env bash
# Builds what a release publishes, from the last commit, into build/release; checks that users' modules can use it; and prints
# the tags to make. It makes none itself. See docs/releasing.md.
#
#   scripts/release.sh v0.1.0
#   ARCHES=amd64    not for all architectures
#   TOOL=DIRECTORY  the module of the program, instead of cmd/ringfold
#
# The program is what `go install` builds from the tags without cgo. The same commit and the same Go give the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C TZ=UTC
version=${1:-}
tool=${TOOL:-cmd/ringfold}
arches=${ARCHES:-amd64 arm64}
die() { echo "release: $*" >&2; exit 1; }

[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || die "which version? make release VERSION=v0.1.0"
[ -z "$(git status --porcelain --ignore-submodules=none)" ] || die "the tree has changes: commit them before"
grep -qF "## [${version#v}]" CHANGELOG.md || die "CHANGELOG.md has no section [${version#v}]"
scripts/apidiff.sh "$version"

module=$(go list -m) name=$(basename "$tool") out=$PWD/build/release
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tags=$(scripts/release/tag.sh "$version" "$work/repository" perfbuf/promperf perfbuf/otelperf "$tool" conformance)
scripts/release/check.sh "$version" "$work/repository" "$work/modules"

# licenses PROGRAM DIRECTORY collects the licenses of all modules in a program.
licenses() {
	local path directory file
	go version -m "$1" | awk '$1 == "dep" || $1 == "mod" { print $2 "@" $3 }' | sort >"$work/linked"
	while read -r path; do
		directory=$(scripts/release/env.sh "$work/repository" "$work/modules" go mod download -json "$path" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')
		for file in "$directory"/{LICENSE,LICENCE,COPYING,NOTICE}*; do
			[ ! -f "$file" ] || install -Dm644 "$file" "$2/${path%@*}/${file##*/}"
		done
		[ -d "$2/${path%@*}" ] || die "$path, which is linked in, has no license"
	done <"$work/linked"
	install -Dm644 "$(go env GOROOT)/LICENSE" "$2/go/LICENSE"
}

# Man pages and completions are written by a program that this machine runs.
log=$(scripts/release/env.sh "$work/repository" "$work/modules" \
	env GOBIN="$work/bin" CGO_ENABLED=0 go install -trimpath -ldflags=-w "$module/$tool@$version" 2>&1) || die "$log"
"$work/bin/$name" man "$work/man"
mkdir "$work/completion"
for shell in bash zsh fish; do "$work/bin/$name" completion $shell >"$work/completion/$shell"; done

# archive NAME ARCH PACKAGE... makes one of programs that users may install, and of the licenses.
archive() {
	local archive=$1 arch=$2 program
	shift 2
	echo "release: building $archive"
	mkdir "$work/$archive"
	# -w: without DWARF.
	log=$(scripts/release/env.sh "$work/repository" "$work/modules" \
		env GOPATH="$work/of/$archive" CGO_ENABLED=0 GOOS=linux GOARCH="$arch" go install -trimpath -ldflags=-w "${@/%/@$version}" 2>&1) || die "$log"
	cp -r LICENSE LICENSES "${also[@]}" "$work/$archive/"
	while read -r program; do # in a directory of its own, if it is for another architecture than this machine's
		cp "$program" "$work/$archive/"
		licenses "$program" "$work/$archive/LICENSES/linked"
		go run ./scripts/release/sbom "$program" >"$out/$archive${2:+-${program##*/}}.cdx.json"
	done < <(find "$work/of/$archive/bin" -type f)
	chmod -R u=rwX,go=rX "$work/$archive"
	tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$archive" | gzip -9n >"$out/$archive.tar.gz"
}

archives=()
for arch in $arches; do
	also=(CHANGELOG.md SECURITY.md "$work"/{man,completion})
	archive "$name-$version-linux-$arch" "$arch" "$module/$tool"
	archives+=("$work/$name-$version-linux-$arch")
	also=(conformance/PROTOCOL.md)
	archive "conformance-$version-linux-$arch" "$arch" "$module"/conformance{,/readers/ringfold,/readers/cilium}
done
echo "release: building packages and an image"
go -C deploy run ./pack "$version" "$out" "${archives[@]}"
(cd "$out" && sha256sum ./* >"$work/sums" && sed 's|\./||' "$work/sums" >SHA256SUMS)
(cd "$out" && du -h -- *)

echo "release: all is in build/release. Publish it with these tags:"
while read -r tag commit; do echo "  git tag -s -m '$tag' $tag $commit"; done <<<"$tags"
echo "  git push origin $(cut -d' ' -f1 <<<"$tags" | paste -sd' ')"
