#!/usr/bin/env bash
# Runs build/static/ringfold where there is no other file, and then, as root, a program with libbpf inside and ringfold where there
# is no more than what reading real events takes. As another user it takes user namespaces, and leaves out the second part.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD/build/static-root
die() { echo "static: $*" >&2; exit 1; }

if [ "${1:-}" != inside ]; then
	as_root=()
	[ "$(id -u)" = 0 ] || as_root=(--map-root-user)
	# All mounts are made in a mount namespace of their own, and end with it.
	unshare "${as_root[@]}" --mount --propagation private "scripts/${0##*/}" inside "$(id -u)"
	rm -r "$root" "$root.log"
	exit
fi

mkdir -p "$root"
mount -t tmpfs none "$root"
cp build/static/{ringfold,ordered} "$root/"
echo 'static: a simulation, in an empty directory'
chroot "$root" /ringfold demo --simulate --timeout 1s >"$root.log" 2>&1 || die "failed: $(tail "$root.log")"
tail -n1 "$root.log"
if [ "$2" != 0 ]; then
	echo 'static: not root: no real events'
	exit
fi

# The kernel's types, for the BPF programs, and its lists of CPUs.
mkdir -p "$root"/{bin,dev,proc,sys/kernel/btf,sys/devices/system/cpu}
for part in kernel/btf devices/system/cpu; do mount -o bind,ro "/sys/$part" "$root/sys/$part"; done
echo 'static: real events with libbpf inside, with /sys/kernel/btf and /sys/devices/system/cpu'
for _ in {1..9}; do sleep 0.3; done & # each is an event
timeout -s INT 3 chroot "$root" /ordered >"$root.log" 2>&1 || [ $? = 124 ] || die "failed: $(tail "$root.log")"
tail -n1 "$root.log"
grep -qE '^[1-9][0-9]* samples' "$root.log" || die 'no events'

# The demo starts the program "true", with /dev/null, and cilium/ebpf reads /proc/self/mountinfo.
: >"$root/dev/null"
mount --bind /dev/null "$root/dev/null"
mount --bind /proc "$root/proc"
echo 'int main(void) { return 0; }' | "${CC:-gcc}" -static -x c -o "$root/bin/true" -
echo 'static: the same with ringfold, with /proc'
PATH=/bin "$(command -v chroot)" "$root" /ringfold demo --json --timeout 2s >"$root.log" 2>&1 || die "failed: $(tail "$root.log")"
tail -n1 "$root.log" | cut -c1-120
tail -n1 "$root.log" | grep -qE '^\{"summary":.*"events":[1-9]' || die 'no events'
