#!/usr/bin/env bash
# Builds the libbpf/ submodule into build/libbpf, as a static library with its headers and pkg-config file.
# Does nothing if the submodule is not checked out, or not changed since.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ -e libbpf/src/Makefile ] || exit 0

out=$PWD/build/libbpf # the .pc file holds this path, so a moved tree builds again
id="$out $(cat libbpf/src/Makefile libbpf/src/*.[ch] libbpf/include/uapi/linux/*.h | cksum)"
[ "$(cat "$out/id" 2>/dev/null)" != "$id" ] || exit 0

echo "setup: building libbpf/ into build/libbpf" >&2
rm -rf "$out"
mkdir -p "$out/obj"
# Not with the flags of the make that called this script.
env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u DESTDIR make -s -C libbpf/src -j "$(nproc)" BUILD_STATIC_ONLY=1 \
	OBJDIR="$out/obj" PREFIX="$out" LIBDIR="$out/lib" install install_uapi_headers >/dev/null
# A program that links libbpf.a also links what it calls: no longer private requirements.
sed -i 's/^Requires.private:/Requires:/' "$out/lib/pkgconfig/libbpf.pc"
echo "$id" >"$out/id"
