#!/usr/bin/env bash
# Builds what a release publishes, from the last commit, into build/release; checks that users' modules can use it; and prints
# the tags to make. It makes none itself. See docs/releasing.md.
#
#   scripts/release.sh v0.1.0
#   ARCHES=amd64    not for all architectures
#   TOOL=DIRECTORY  the module of the program, instead of cmd/ringfold
#
# The program is what `go install` builds from the tags, but static. The same commit gives the same bytes, wherever it lies, with the
# same Go, C compiler and C libraries; the SBOM names these.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C TZ=UTC
version=${1:-}
tool=${TOOL:-cmd/ringfold}
host=$(go env GOHOSTARCH)
arches=${ARCHES:-$(case $host in amd64) echo amd64 arm64 ;; *) echo "$host" ;; esac)}
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
tags=$(scripts/release/tag.sh "$version" "$work/repository" perfbuf/promperf "$tool")
scripts/release/check.sh "$version" "$work/repository" "$work/modules"

# for_arch ARCH COMMAND... runs a command in the environment in which Go builds for an architecture.
for_arch() {
	if [ "$1" = "$host" ]; then scripts/env.sh "${@:2}"; else scripts/vm/cross.sh "$@"; fi
}

# licenses PROGRAM ARCH DIRECTORY collects the licenses of all that is linked into a program.
licenses() {
	local path directory file package root=/
	go version -m "$1" | awk '$1 == "dep" || $1 == "mod" { print $2 "@" $3 }' | sort >"$work/linked"
	while read -r path; do
		directory=$(scripts/release/env.sh "$work/repository" "$work/modules" go mod download -json "$path" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')
		for file in "$directory"/{LICENSE,LICENCE,COPYING,NOTICE}*; do
			[ ! -f "$file" ] || install -Dm644 "$file" "$3/${path%@*}/${file##*/}"
		done
		[ -d "$3/${path%@*}" ] || die "$path, which is linked in, has no license"
	done <"$work/linked"
	install -Dm644 "$(go env GOROOT)/LICENSE" "$3/go/LICENSE"
	[ "$2" = "$host" ] || root=build/vm/sysroot-$2
	for package in libbpf-dev libelf-dev zlib1g-dev libc6-dev; do # where they are Debian's
		file=$root/usr/share/doc/$package/copyright
		[ ! -f "$file" ] || install -Dm644 "$file" "$3/debian/$package"
	done
	for file in libbpf/LICENSE*; do [ ! -f "$file" ] || install -Dm644 "$file" "$3/libbpf/${file##*/}"; done
}

# libraries ARCH prints "-library NAME=VERSION" of each C library in a program: Go records none of them.
libraries() {
	local flag name
	for flag in $(for_arch "$1" pkg-config --static --libs-only-l libbpf | tr ' ' '\n' | sort -u); do
		case $flag in
		-lbpf | -lelf | -lzstd) name=lib${flag#-l} ;;
		-lz) name=zlib ;;
		*) die "libbpf is linked with $flag, which the SBOM does not know" ;;
		esac
		echo "-library $name=$(for_arch "$1" pkg-config --modversion "$name")"
	done
	# shellcheck disable=SC2016 # for that shell
	echo "-library glibc=$(for_arch "$1" sh -c 'printf "#include <features.h>\n__GLIBC__.__GLIBC_MINOR__" | ${CC:-gcc} -E -P -' | tail -n1 | tr -d ' ')"
}

for arch in $arches; do
	archive=$name-$version-linux-$arch
	echo "release: building $archive"
	# -buildid=: it depends on flags that say where libbpf lies. -w: without DWARF.
	log=$(GOPATH=$work/$arch for_arch "$arch" scripts/release/env.sh "$work/repository" "$work/modules" \
		go install -trimpath -tags static_build,netgo,osusergo -ldflags '-buildid= -w' "$module/$tool@$version" 2>&1) || die "$log"
	program=$(find "$work/$arch/bin" -type f)
	scripts/static.sh --look "$program"
	mkdir "$work/$archive"
	cp "$program" "$work/$archive/$name"
	cp -r LICENSE LICENSES CHANGELOG.md SECURITY.md "$work/$archive/"
	licenses "$program" "$arch" "$work/$archive/LICENSES/linked"
	# shellcheck disable=SC2046 # several words
	go run ./scripts/release/sbom $(libraries "$arch") "$program" >"$out/$archive.cdx.json"
	chmod -R u=rwX,go=rX "$work/$archive"
	tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c "$archive" | gzip -9n >"$out/$archive.tar.gz"
done
(cd "$out" && sha256sum ./* >"$work/sums" && sed 's|\./||' "$work/sums" >SHA256SUMS)
(cd "$out" && du -h -- *)

echo "release: all is in build/release. Publish it with these tags:"
while read -r tag commit; do echo "  git tag -s -m '$tag' $tag $commit"; done <<<"$tags"
echo "  git push origin $(cut -d' ' -f1 <<<"$tags" | paste -sd' ')"
