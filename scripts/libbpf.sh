#!/usr/bin/env bash
# Builds libbpf, with its headers and pkg-config file:
#
#   scripts/libbpf.sh                        the libbpf/ submodule, into build/libbpf, if it is checked out
#   scripts/libbpf.sh SOURCES PREFIX [system]  others: as the submodule, or as distributions do
#
# The submodule comes as a static library, with the kernel headers that libbpf's sources bring along. Distributions
# have a shared library as well, and kernel headers of their own. Does nothing if nothing has changed since.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sources=${1:-libbpf} out=$(realpath -m "${2:-build/libbpf}") how=${3:-submodule} # the .pc file holds the path, so a moved tree builds again
[ $# -gt 0 ] || [ -e libbpf/src/Makefile ] || exit 0

case $how in
submodule) what=(BUILD_STATIC_ONLY=1 install install_uapi_headers) ;;
system) what=(install) ;;
*) echo "libbpf.sh: unknown argument $how" >&2; exit 1 ;;
esac
id="$out $how $(cat "$sources"/src/Makefile "$sources"/src/*.[ch] "$sources"/include/uapi/linux/*.h | cksum)"
[ "$(cat "$out/id" 2>/dev/null)" != "$id" ] || exit 0

echo "setup: building $sources/ into ${out#"$PWD/"}" >&2
rm -rf "$out"
mkdir -p "$out/obj"
# Not with the flags of the make that called this script.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u DESTDIR make -s -C "$sources/src" -j "$(nproc)" \
	OBJDIR="$out/obj" PREFIX="$out" LIBDIR="$out/lib" "${what[@]}" >/dev/null
# A program that links libbpf.a also links what it calls: no longer private requirements.
[ "$how" = system ] || sed -i 's/^Requires.private:/Requires:/' "$out/lib/pkgconfig/libbpf.pc"
echo "$id" >"$out/id"
