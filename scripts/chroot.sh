#!/usr/bin/env bash
# Runs commands in a copy of the working tree in a new Debian (under build/chroot), one after the other, until one fails:
#
#   scripts/chroot.sh NAME COMMAND...
#
# The Debian has git, make, certificates and this machine's Go, and no more. The copy is what `git clone` would give of the tree
# if all of it, new files included, were committed now; it says so when that is not HEAD. The kernel is this machine's, so kernel
# tests run too.
#
#   SUITE=trixie   the release of Debian, instead of bookworm
#   MIRROR=URL     a Debian mirror, instead of the one that apt uses here
#
# Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/apt.sh
export LC_ALL=C
name=$1 suite=${SUITE:-bookworm}
all=$PWD/build/chroot root=$PWD/build/chroot/root base=$PWD/build/chroot/$suite
say() { echo "$name: $*"; }
die() { say "$*" >&2; exit 1; }

# remove_root runs where none of the mounts below exist; it looks all the same, as one of them is this machine's Go.
remove_root() {
	! grep -qF " $root/" /proc/self/mountinfo || die "something is mounted under $root: umount it first"
	rm -rf --one-file-system "$root" "$all"/*.new
}

if [ "${INSIDE:-}" != 1 ]; then
	[ "$(id -u)" = 0 ] || die "needs root"
	mkdir -p "$all"
	: >"$all/go.mod" # Go's ./... stops at a module: Debian brings Go files along
	exec 9>"$all/lock"
	flock -n 9 || die "another chroot is in use"
	trap remove_root EXIT
	remove_root
	# All mounts are made in a mount namespace of their own: they end with it, however it ends.
	INSIDE=1 unshare --mount --propagation private "scripts/${0##*/}" "$@"
	say ok
	exit
fi
shift

# A bare Debian, made once; `make clean` removes it.
if [ ! -d "$base" ]; then
	mirror=$(debian_mirror) || die "no Debian mirror in apt's sources: name one with MIRROR=URL"
	say "debootstrap of $suite from $mirror"
	debootstrap --variant=minbase --include=ca-certificates,git,make "$suite" "$base.new" "$mirror" >"$all/debootstrap.log" 2>&1 ||
		{ tail "$all/debootstrap.log"; die "debootstrap failed"; }
	rm -f "$base.new"/var/cache/apt/archives/*.deb
	mv "$base.new" "$base"
fi
cp -a "$base" "$root"

# How this machine reaches the network: names, certificates (a proxy may have its own), apt's settings.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
apt-config dump Acquire | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv)' >"$root/etc/apt/apt.conf.d/99chroot" || :

# The tree, by way of a commit that no branch names.
export GIT_AUTHOR_NAME=chroot GIT_AUTHOR_EMAIL=chroot@localhost
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
head=$(git rev-parse -q --verify HEAD || :)
cp "$(git rev-parse --git-path index)" "$all/index"
commit=$head
tree=$(export GIT_INDEX_FILE=$all/index && git add -A && git write-tree)
if [ -z "$head" ] || [ "$tree" != "$(git rev-parse "$head^{tree}")" ]; then
	say "with the uncommitted changes"
	commit=$(git commit-tree "$tree" ${head:+-p "$head"} -m 'working tree')
fi
git init -q "$root/root/ringfold"
git push -q --no-verify "$root/root/ringfold" "$commit:refs/heads/chroot"
git -C "$root/root/ringfold" checkout -q chroot

mount --bind "$root" "$root" # for pivot_root
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mkdir -p "$root/usr/local/go"
mount -o bind,ro "$(go env GOROOT)" "$root/usr/local/go"

environment=(HOME=/root TERM=dumb PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for name_of in GOPROXY GOSUMDB GONOSUMDB GONOPROXY GOPRIVATE GOINSECURE GOFLAGS GOTOOLCHAIN; do
	environment+=("$name_of=$(go env $name_of)")
done
for name_of in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY RINGFOLD_REQUIRE_KERNEL; do
	[ -z "${!name_of:-}" ] || environment+=("$name_of=${!name_of}")
done

# inside COMMAND... runs it where the new Debian is all there is: a process in a chroot may not make user namespaces, for one.
inside() {
	# shellcheck disable=SC2016 # for that shell
	unshare --mount --propagation private env -i "${environment[@]}" bash -ec \
		'cd "$1" && pivot_root . mnt && cd / && umount -l mnt && exec "${@:2}"' - "$root" "$@" </dev/null
}
for command in "$@"; do
	say "$command"
	inside bash -c "cd /root/ringfold && $command" || die "\"$command\" failed in a fresh Debian ($suite)"
done
