#!/usr/bin/env bash
# Prints the path of a Debian cloud kernel, fetched once, or of a file that is there:  scripts/vm/kernel.sh 6.1 amd64
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$1 arch=$2
if [ -f "$version" ]; then
	echo "$version"
	exit
fi
case $version in
5.10) suites='bullseye-security bullseye' ;;
6.1) suites='bookworm-security bookworm' ;;
6.12) suites='trixie-security trixie' ;;
*) suites='trixie-backports forky sid' ;;
esac
directory=build/vm/kernels/$arch-$version
if [ ! -d "$directory" ]; then
	rm -rf "$directory.new"
	scripts/vm/debian.sh "$arch" "$directory.new" "$suites" "linux-(image|binary)-${version//./\\.}[.][^ ]*-cloud-$arch" '*/vmlinuz*' >&2
	mv "$directory.new" "$directory"
fi
find "$directory" -name 'vmlinuz*' -type f | grep .
