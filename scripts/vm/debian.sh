#!/usr/bin/env bash
# Unpacks Debian packages, of any release and architecture, without installing them:
#
#   scripts/vm/debian.sh ARCH DIRECTORY 'SUITE...' PATTERN [FILE]
#
# The package is the newest whose name matches PATTERN (a whole name, extended regular expression) in the first
# suite that has one; FILE, a pattern of tar's, selects what is unpacked. The lists of packages stay under build/vm/apt;
# this machine's own apt and dpkg are only asked where the mirror is. MIRROR=URL and SECURITY_MIRROR=URL name others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. scripts/apt.sh
export LC_ALL=C
arch=$1 directory=$PWD/$2 suites=$3 pattern=$4 file=${5:-}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
say() { echo "vm: $*" >&2; }
die() { say "$@"; exit 1; }

for command in apt-get dpkg-deb; do
	command -v $command >/dev/null || die "no $command: kernels for virtual machines come from Debian's packages"
done
[ -e $keyring ] || die "$keyring is missing: install debian-archive-keyring"

debian=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}") || debian=none
main=${MIRROR:-$(mirror_of "$debian" || :)}
security=${SECURITY_MIRROR:-$(mirror_of "$debian-security" || :)}
[ -n "$main" ] || die "no Debian mirror in apt's sources: name one with MIRROR=URL"

for suite in $suites; do
	case $suite in *-security) mirror=$security ;; *) mirror=$main ;; esac
	[ -n "$mirror" ] || continue
	state=$PWD/build/vm/apt/$arch-$suite
	mkdir -p "$state/state/lists/partial" "$state/cache/archives/partial" "$state/parts" "$state/debs"
	: >"$state/status"
	echo "deb [arch=$arch signed-by=$keyring] $mirror $suite main" >"$state/sources.list"
	options=(-o "Dir::State=$state/state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache"
		-o "Dir::Etc::sourcelist=$state/sources.list" -o "Dir::Etc::sourceparts=$state/parts"
		-o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::Retries=3)
	apt-get -qq "${options[@]}" update >&2 || { say "no lists of $suite; looking on"; continue; }
	# The version follows the second dash of a kernel's name; linux-binary-* has what linux-image-* had before.
	package=$(apt-cache "${options[@]}" pkgnames | grep -xE "$pattern" | sort -t- -k3Vr | head -n1) || continue
	say "fetching $package ($arch, $suite)"
	rm -f "$state"/debs/*
	(cd "$state/debs" && apt-get -qq "${options[@]}" download "$package" >&2) || die "downloading $package failed"
	mkdir -p "$directory"
	dpkg-deb --fsys-tarfile "$state"/debs/*.deb | tar -C "$directory" -x ${file:+--wildcards "$file"}
	rm -f "$state"/debs/*
	exit 0
done
die "no package $pattern of $arch in: $suites"
