#!/usr/bin/env bash
# Tries scripts/release.sh, with a version that there is not, on a clone of the working tree, and looks into what it made.
#
#   scripts/release/test.sh [--twice]   also that another clone, with nothing cached, makes the same bytes
#   ARCHES='amd64 arm64'                for these, and not this machine's only
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
version=v0.987.0
arches=${ARCHES:-$(go env GOHOSTARCH)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "release: $*" >&2; exit 1; }

# release DIRECTORY makes a clone and a release of it.
release() {
	git clone -q --no-tags . "$1"
	git ls-files -z --cached --others --exclude-standard --deduplicate | while IFS= read -rd '' file; do
		[ ! -f "$file" ] || cp -P --parents "$file" "$1/"
	done
	git ls-files -z --deleted | (cd "$1" && xargs -0r rm -f)
	sed -i "s/^## \[Unreleased\]/&\n\n## [${version#v}] - 2000-01-01/" "$1/CHANGELOG.md"
	git -C "$1" add -A
	git -C "$1" config user.name test
	git -C "$1" config user.email test@localhost
	GIT_AUTHOR_DATE=2000-01-01T00:00:00Z GIT_COMMITTER_DATE=2000-01-01T00:00:00Z git -C "$1" commit -qm 'a release'
	[ ! -d build/libbpf ] || export LIBBPF_PREFIX=$root/build/libbpf # for users' programs with cgo
	ARCHES=$arches "$1/scripts/release.sh" "$version"
}

release "$work/one" | tee "$work/log"
out=$work/one/build/release
(cd "$out" && sha256sum -c --quiet SHA256SUMS)
for arch in $arches; do
	archive=ringfold-$version-linux-$arch
	tar -C "$work" -xzf "$out/$archive.tar.gz"
	for file in LICENSE LICENSES/{GPL-2.0-only.txt,linked/go/LICENSE,linked/github.com/spf13/cobra/LICENSE.txt} CHANGELOG.md man/ringfold.1; do
		[ -s "$work/$archive/$file" ] || die "$archive.tar.gz has no $file"
	done
	contents=$(go version -m "$work/$archive/ringfold")
	for module in github.com/ringfold/ringfold/cmd/ringfold github.com/ringfold/ringfold; do
		grep -qP "^\t(mod|dep)\t$module\t\Q$version\E\t" <<<"$contents" || die "the program does not say that it has $module $version: $contents"
	done
	grep -qx $'\tbuild\tCGO_ENABLED=0' <<<"$contents" || die "the program may have C in it: $contents"
	! grep -qF '=>' <<<"$contents" || die "the program is built from directories: $contents"
	! grep -qaF "$(go env GOROOT)/src/" "$work/$archive/ringfold" || die "the program has this machine's paths in it"
	for part in "ringfold@$version?" "ringfold@$version" github.com/spf13/cobra@ golang/std@; do
		grep -qF "$part" "$out/$archive.cdx.json" || die "the SBOM of $archive has no $part"
	done
	# The conformance suite runs without a checkout.
	suite=conformance-$version-linux-$arch
	tar -C "$work" -xzf "$out/$suite.tar.gz"
	[ -s "$work/$suite/PROTOCOL.md" ] || die "$suite.tar.gz has no PROTOCOL.md"
	if [ "$arch" = "$(go env GOHOSTARCH)" ]; then
		run=(-list)
		[ "$(id -u)" != 0 ] || run=(-readers ./ringfold,./cilium -scenarios conservation/fits -out results.json)
		(cd "$work/$suite" && ./conformance "${run[@]}") || die "the suite does not run"
	fi
	# The packages. What is in an RPM, and in the image, is checked by tests of deploy/pack, too.
	compgen -G "$out/ringfold-${version#v}-1.*.rpm" >/dev/null || die "there is no RPM package"
	deb=$out/ringfold_${version#v}_$arch.deb
	if command -v dpkg-deb >/dev/null; then
		dpkg-deb -x "$deb" "$work/deb-$arch"
		cmp "$work/$archive/ringfold" "$work/deb-$arch/usr/bin/ringfold" || die "$deb has another program"
		[ "$(stat -c %a "$work/deb-$arch/etc/ringfold/record.env")" = 600 ] || die "$deb: everybody may read record.env"
		[ -s "$work/deb-$arch/usr/lib/systemd/system/ringfold-record.service" ] || die "$deb has no unit"
	fi
done
native=$work/ringfold-$version-linux-$(go env GOHOSTARCH)
[ ! -d "$native" ] || "$native/ringfold" version | grep -F "$version" || die "ringfold version does not print $version"

# The tags are those of a commit that can be tagged, here.
while read -r commit; do git -C "$work/one" cat-file -e "$commit^{commit}"; done < <(grep -oP "^  git tag .* \K[0-9a-f]{40}$" "$work/log")
tar -tf "$out/ringfold-$version.oci.tar" index.json >/dev/null || die "there is no image"
[ -z "$(git -C "$work/one" tag)" ] || die "the script has made tags"

# refuses VERSION MESSAGE fails unless the script does, and says so.
refuses() {
	! (cd "$work/one" && scripts/release.sh "$1") >"$work/log" 2>&1 || die "made a release that it should refuse: $2"
	grep -qF "$2" "$work/log" || die "said no, but not \"$2\": $(<"$work/log")"
}
refuses "${version#v}" 'which version?'
refuses v0.987.1 'has no section'
echo >>"$work/one/LICENSE"
refuses "$version" 'the tree has changes'

# The exported API: a release has a function, HEAD has not.
git -C "$work/one" checkout -q LICENSE
one() { git -C "$work/one" commit -qam "$1"; }
printf '\n// Gone is an exported function.\nfunc Gone() {}\n' >>"$work/one/perfbuf/version.go"
one 'a function'
git -C "$work/one" tag v0.988.0
"$work/one/scripts/apidiff.sh" v0.988.1 >"$work/log" || die "the API of a release differs from itself: $(<"$work/log")"
git -C "$work/one" checkout -q HEAD^ -- perfbuf/version.go
one 'no function'
refuses_api() { ! "$work/one/scripts/apidiff.sh" "$1" >"$work/log" 2>&1 && grep -qF 'Gone: removed' "$work/log"; }
refuses_api v0.988.1 || die "a patch release may break programs: $(<"$work/log")"
! refuses_api v0.989.0 || die "no minor release may break programs: $(<"$work/log")"

if [ "${1:-}" = --twice ]; then
	GOCACHE=$work/cache release "$work/elsewhere/two" >"$work/log" || { cat "$work/log"; exit 1; }
	cmp "$out/SHA256SUMS" "$work/elsewhere/two/build/release/SHA256SUMS" || die "the same commit has given other bytes"
	echo 'release: another clone gives the same bytes'
fi
echo 'release: ok'
