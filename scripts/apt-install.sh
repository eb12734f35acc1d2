#!/usr/bin/env bash
# Installs Debian or Ubuntu packages, as root or through sudo:  scripts/apt-install.sh PACKAGE...
# What is too old in Debian 12 comes from bookworm-backports, with the dependencies that it needs from there.
set -euo pipefail

# backports prints the command that enables bookworm-backports, or nothing if it is enabled. It copies this
# machine's own entry for bookworm, with its mirror, key and options, and changes the suite alone.
backports() {
	local sources entry file nr
	# shellcheck disable=SC2016 # apt's variables. --no-release-info: also before the first update
	sources=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(SOURCESENTRY)' 'Created-By: Packages')
	! grep -q '^bookworm-backports ' <<<"$sources" || return 0
	entry=$(grep -Em1 '^(bookworm|oldstable|stable) ' <<<"$sources") || {
		echo "setup: no apt source of bookworm found; enable bookworm-backports by hand" >&2
		return 1
	}
	entry=${entry#* } file=${entry%:*} nr=${entry##*:}
	echo "cat >/etc/apt/sources.list.d/ringfold-backports.${file##*.} <<'END'"
	if [[ $file == *.sources ]]; then # nr counts paragraphs
		grep -v '^#' "$file" | awk -v RS= -v nr="$nr" 'NR == nr {
			sub(/(^|\n)[Ss]uites:[^\n]*(\n[ \t][^\n]*)*/, "\nSuites: bookworm-backports")
			sub(/^\n/, "")
			print
		}'
	else # nr counts lines: deb [options] mirror suite components
		sed -n "${nr}p" "$file" | sed -E 's/^(deb\s+(\[[^]]*\]\s*)?\S+\s+)\S+/\1bookworm-backports/'
	fi
	echo END
}

# show_and_fail leaves the rest to somebody who can.
show_and_fail() {
	printf 'setup: %s. Run this as root, then try again:\n\n%s\n\n' "$1" "$script" >&2
	exit 1
}

enable='' packages=() following=()
on=$(. /etc/os-release && echo "${ID:-} ${VERSION_CODENAME:-}")
for package in "$@"; do
	case "$on/$package" in
	'debian bookworm/libbpf-dev' | 'debian bookworm/linux-libc-dev') packages+=("$package/bookworm-backports") ;;
	'debian bookworm/qemu-system-'*) following+=("$package") ;; # its dependencies have to come from there too
	*) packages+=("$package"); continue ;;
	esac
	[ -n "${seen:-}" ] || enable=$(backports)
	seen=1
done

# commands OPTION... prints those that install. With -t alone, apt would upgrade what else comes from the sources of a dependency:
# perf, with the kernel's headers. So only what needs -t gets it, after the rest.
commands() {
	echo 'export DEBIAN_FRONTEND=noninteractive'
	[ ${#packages[@]} = 0 ] || echo "apt-get $* --no-install-recommends install ${packages[*]}"
	[ ${#following[@]} = 0 ] || echo "apt-get $* --no-install-recommends -t bookworm-backports install ${following[*]}"
}

update='apt-get -qq update || true' # one bad source of many need not matter: install tells
install=$(commands -qqy -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
full="$enable${enable:+$'\n'}$update"$'\n'"$install"
script=$full
if [ -z "$enable" ] && plan=$(bash -ec "$(commands -s)" 2>/dev/null); then
	grep -q '^Inst ' <<<"$plan" || exit 0 # installed already: apt has nothing newer
	script=$install
fi

as_root=()
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || show_and_fail 'not root, and there is no sudo'
	as_root=(sudo)
fi
for pause in 2 10 0; do # mirrors fail now and then, and apt's lists may be stale
	if "${as_root[@]}" bash -ec "$script" >&2; then exit 0; fi
	sleep "$pause"
	script=$full
done
show_and_fail 'this failed'
