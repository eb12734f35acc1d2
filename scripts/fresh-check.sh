#!/usr/bin/env bash
# Proves the set-up: runs the README's commands in a new Debian 12 (a chroot under build/fresh) that has
# nothing but what the README asks for beforehand: git, make, certificates, and this machine's Go.
#
# What is tried is what `git clone` would give of the working tree if all of it, new files included, were
# committed now. It says so when that is not HEAD. The kernel is this machine's, so the kernel tests run too.
#
# MIRROR=URL names a Debian mirror; otherwise it is the one that apt uses here. Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LC_ALL=C
fresh=$PWD/build/fresh root=$PWD/build/fresh/root
say() { echo "fresh-check: $*"; }
die() { say "$*" >&2; exit 1; }

# remove_root runs where none of the mounts below exist; it looks all the same, as one of them is this machine's Go.
remove_root() {
	! grep -qF " $root/" /proc/self/mountinfo || die "something is mounted under $root: umount it first"
	rm -rf --one-file-system "$root" "$fresh/base.new"
}

if [ "${1:-}" != inside ]; then
	[ "$(id -u)" = 0 ] || die "needs root"
	mkdir -p "$fresh"
	: >"$fresh/go.mod" # Go's ./... stops at a module: Debian brings Go files along
	exec 9>"$fresh/lock"
	flock -n 9 || die "another one is running"
	trap remove_root EXIT
	remove_root
	# All mounts are made in a mount namespace of their own: they end with it, however it ends.
	unshare --mount --propagation private "scripts/${0##*/}" inside
	say ok
	exit
fi

# A bare Debian 12, made once; `make clean` removes it.
if [ ! -d "$fresh/base" ]; then
	# shellcheck disable=SC2016 # apt's variables
	mirror=${MIRROR:-$(apt-get indextargets --no-release-info --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
		sed -nE "/^(bookworm|$(. /etc/os-release && echo "${VERSION_CODENAME:-}")) /{s/.* //p;q}")}
	[ -n "$mirror" ] || die "no Debian mirror in apt's sources: name one with MIRROR=URL"
	say "debootstrap from $mirror"
	debootstrap --variant=minbase --include=ca-certificates,git,make bookworm "$fresh/base.new" "$mirror" >"$fresh/debootstrap.log" 2>&1 ||
		{ tail "$fresh/debootstrap.log"; die "debootstrap failed"; }
	rm -f "$fresh"/base.new/var/cache/apt/archives/*.deb
	mv "$fresh/base.new" "$fresh/base"
fi
cp -a "$fresh/base" "$root"

# How this machine reaches the network: names, certificates (a proxy may have its own), apt's settings.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
apt-config dump Acquire | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv)' >"$root/etc/apt/apt.conf.d/99fresh-check" || :

# The tree, by way of a commit that no branch names.
export GIT_AUTHOR_NAME=fresh-check GIT_AUTHOR_EMAIL=fresh-check@localhost
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
head=$(git rev-parse -q --verify HEAD || :)
cp "$(git rev-parse --git-path index)" "$fresh/index"
commit=$head
tree=$(export GIT_INDEX_FILE=$fresh/index && git add -A && git write-tree)
if [ -z "$head" ] || [ "$tree" != "$(git rev-parse "$head^{tree}")" ]; then
	say "with the uncommitted changes"
	commit=$(git commit-tree "$tree" ${head:+-p "$head"} -m 'working tree')
fi
git init -q "$root/root/ringfold"
git push -q --no-verify "$root/root/ringfold" "$commit:refs/heads/fresh-check"
git -C "$root/root/ringfold" checkout -q fresh-check

mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mkdir -p "$root/usr/local/go"
mount -o bind,ro "$(go env GOROOT)" "$root/usr/local/go"

environment=(HOME=/root TERM=dumb PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for name in GOPROXY GOSUMDB GONOSUMDB GONOPROXY GOPRIVATE GOINSECURE GOFLAGS GOTOOLCHAIN; do
	environment+=("$name=$(go env $name)")
done
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY RINGFOLD_REQUIRE_KERNEL; do
	[ -z "${!name:-}" ] || environment+=("$name=${!name}")
done
for command in 'make test' 'make demo'; do
	say "$command"
	chroot "$root" env -i "${environment[@]}" bash -c "cd /root/ringfold && $command" </dev/null ||
		die "\"$command\" failed in a fresh Debian 12"
done
