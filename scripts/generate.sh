#!/usr/bin/env bash
# Builds every BPF program: x.bpf.c into x.bpf.o next to it, which is committed and embedded.
#
#   scripts/generate.sh          rebuilds them in place
#   scripts/generate.sh --check  rebuilds them under build/bpf and tells which of the committed ones differ
#
# A comment "// bpf-cflags: FLAGS" in a source's first ten lines adds flags, -mcpu=v3 for instance.
# The bytes depend on the source, clang's version and libbpf's headers, not on where the checkout lies.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C
check=${1:-}

clang=$(clang --version | head -n1)
multiarch=$("${CC:-gcc}" -print-multiarch 2>/dev/null || :) # Debian's place for <asm/types.h>
read -ra libbpf <<<"$(scripts/env.sh pkg-config --cflags libbpf)"
flags=(-O2 -g -Wall -target bpf -mcpu=v2 -idirafter "/usr/include/$multiarch" "${libbpf[@]}"
	# No path of this machine in the line information that goes to the kernel.
	-fdebug-compilation-dir=. "-ffile-prefix-map=$PWD/build/libbpf=/usr")
mkdir -p build/bpf
echo "$clang" >build/bpf/clang

differ=0
while read -r source; do
	source=${source#./}
	committed=$PWD/${source%.c}.o built=$PWD/build/bpf/${source%.c}.o
	mkdir -p "$(dirname "$built")"
	read -ra own <<<"$(sed -n '1,10s|^// bpf-cflags: ||p' "$source")"
	# Compiled where it lies, as the path of the source is recorded too.
	(cd "$(dirname "$source")" && clang "${flags[@]}" "${own[@]}" -c "$(basename "$source")" -o "$built")
	# Without DWARF, which nobody reads; with clang's version, under a name that loaders skip.
	llvm-objcopy --strip-debug "$built"
	llvm-objcopy --add-section .debug_clang=build/bpf/clang "$built"
	if [ "$check" != --check ]; then
		cp "$built" "$committed"
	elif ! cmp -s "$built" "$committed"; then
		differ=1
		echo "$source: the committed object differs from a new one, or is missing"
		echo "  committed: built by $(llvm-objcopy --dump-section .debug_clang=/dev/stdout "$committed" /dev/null 2>/dev/null || echo '(unknown)')"
		echo "  new:       built by $clang, in $built"
	fi
done < <(find . \( -path ./build -o -path ./libbpf -o -path ./.git \) -prune -o -name '*.bpf.c' -print | sort)
[ "$differ" = 0 ] || echo 'Run "make generate" with the clang of the committed ones, or commit all of them built by another.'
exit "$differ"
