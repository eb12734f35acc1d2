#!/usr/bin/env bash
# Runs a command in the environment in which Go finds libbpf:  scripts/env.sh go test ./...
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The libbpf/ submodule, if checked out, goes before the system's libbpf (scripts/libbpf.sh builds it). LIBBPF_PREFIX=DIR
# goes before both: another libbpf, installed there.
prefix=${LIBBPF_PREFIX:-}
if [ -z "$prefix" ] && [ -e "$root/libbpf/src/Makefile" ]; then prefix=$root/build/libbpf; fi
[ -z "$prefix" ] || export PKG_CONFIG_PATH="$prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"

# libbpfgo's cgo does not ask pkg-config, so what it answers goes to the flags too.
# Go caches what cgo built by its flags, and looks neither at pkg-config's answer nor at the library file.
# A marker among the flags makes it build anew when libbpf is another one.
pc() { pkg-config "$@" libbpf 2>/dev/null || :; }
lib=$(pc --variable=libdir)/libbpf
id=$({ pc --modversion --cflags --libs; pc --static --libs; stat -Lc '%n %s %Y' "$lib.so" "$lib.a" 2>/dev/null || :; } | cksum)
CGO_CFLAGS="$(go env CGO_CFLAGS) $(pc --cflags) -DLIBBPF_ID=${id%% *}"
CGO_LDFLAGS="$(go env CGO_LDFLAGS) $(pc --libs-only-L)"
export CGO_CFLAGS CGO_LDFLAGS

exec "$@"
