#!/usr/bin/env bash
# Installs what a build of ringfold needs and this machine lacks; says what and why before it does.
# Prints nothing when nothing is lacking.
#
#   scripts/setup.sh              for building, testing and running
#   scripts/setup.sh generate     also clang and llvm-objcopy, for `make generate`
#   scripts/setup.sh fresh-check  also debootstrap, for `make fresh-check` and `make fresh-ci`
#   scripts/setup.sh ci           also those of generate, and programs that tests of the tools use or compare with; else these skip
#   scripts/setup.sh pictures     also what draws the pictures in docs/, for `make pictures`
#   scripts/setup.sh vm           also QEMU and cpio, for `make test-vm`
#   scripts/setup.sh vm-arm64     the same for arm64, and a cross compiler, for `make test-vm ARCH=arm64`
#   SETUP=0                       skips all of it
set -euo pipefail
[ "${SETUP:-1}" != 0 ] || exit 0
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec >&2 # standard output belongs to the program that make runs next

go_needed=1.26
libbpf_needed=1.4 # by libbpfgo, in tests and examples; the library alone builds with 1.0
# The newest name that libbpfgo v0.10.0-libbpf-1.5.1 takes from linux/bpf.h: Linux 6.10.
uapi_needed=BPF_TRACE_KPROBE_SESSION
use_submodule='git submodule update --init libbpf' # libbpf's own sources bring new enough headers along

have() { command -v "$1" >/dev/null; }
administrators() { have "$1" || [ -x "/usr/sbin/$1" ]; } # not in everybody's PATH
die() { echo "setup: $*"; exit 1; }
submodule() { [ -e libbpf/src/Makefile ]; }

# compiles LINE... reports whether these lines of C do.
compiles() {
	# shellcheck disable=SC2046 # several flags
	printf '%s\n' "$@" | ${CC:-gcc} -fsyntax-only $(pkg-config --cflags libbpf 2>/dev/null) -x c - 2>/dev/null
}

# lack WHY PACKAGE... notes Debian's names of what is missing.
lack() {
	packages+=("${@:2}")
	why+="  ${*:2}: $1"$'\n'
}

# look finds out what is missing.
look() {
	packages=() why=''
	compiles '#include <stdlib.h>' || lack 'the C compiler that cgo calls' gcc libc6-dev
	have make || lack 'runs the targets' make
	have pkg-config || lack 'tells where libbpf is' pkg-config
	pkg-config --exists libelf 2>/dev/null || lack 'libbpf reads BPF objects with it' libelf-dev
	pkg-config --exists zlib 2>/dev/null || lack 'used by libelf and libbpf' zlib1g-dev
	if ! submodule; then
		pkg-config --exists "libbpf >= $libbpf_needed" 2>/dev/null ||
			lack "libbpf $libbpf_needed or newer" libbpf-dev
		compiles '#include <linux/bpf.h>' "int x = $uapi_needed;" ||
			lack 'kernel headers of 6.10 or newer, for libbpfgo' linux-libc-dev
	fi
	if [ "$1" = generate ] || [ "$1" = ci ]; then
		have clang || lack 'compiles BPF programs' clang
		have llvm-objcopy || lack "drops what the kernel does not read from them" llvm
	fi
	if [ "$1" = ci ] || [ "$1" = pictures ]; then
		have tmux || lack 'a terminal for programs that draw on one' tmux
		administrators execsnoop || lack 'tools with perf event arrays, which ringfold tail reads' libbpf-tools
	fi
	if [ "$1" = ci ]; then
		administrators bpftool || lack 'prints the events of a map, as ringfold tail does' bpftool
		have perf || lack 'reads recordings' linux-perf
		have jq || lack 'reads JSON, in command lines of documents' jq
		! have apt-get || have cargo || lack "builds Rust's reader of recordings" cargo
		! have apt-get || compgen -G '/usr/share/cargo/registry/linux-perf-data-*' >/dev/null ||
			lack "Rust's reader of recordings" librust-linux-perf-data-dev
	elif [ "$1" = pictures ]; then
		have aha || lack 'turns what a terminal shows into HTML' aha
		have chromium-headless-shell || lack 'draws HTML, and runs the Perfetto UI' chromium-headless-shell
		have curl || lack 'gets the metrics' curl
		fc-list 2>/dev/null | grep -q DejaVuSansMono || lack 'the font' fontconfig fonts-dejavu-core
		have node || lack "runs Perfetto's importer, and bundles Grafana's components" nodejs
		have npm || lack "gets the Perfetto UI and Grafana's components" npm
	elif [ "$1" = fresh-check ]; then
		have debootstrap || lack 'makes a fresh Debian 12' debootstrap
	elif [ "$1" = vm ] || [ "$1" = vm-arm64 ]; then
		have cpio || lack 'packs what a virtual machine starts with' cpio
		# QEMU before 8.1 has guests with many CPUs die when their kernels patch their own code.
		[ "$1" != vm ] || have qemu-system-x86_64 || lack 'emulates machines with other kernels and more CPUs' qemu-system-x86
		[ "$1" != vm-arm64 ] || have qemu-system-aarch64 || lack 'emulates arm64 machines' qemu-system-arm
	fi
	if [ "$1" = vm-arm64 ]; then
		have aarch64-linux-gnu-gcc || lack 'compiles C for arm64' gcc-aarch64-linux-gnu libc6-dev-arm64-cross
	fi
}

check_go() {
	local version how="install Go $go_needed or newer: https://go.dev/doc/install"
	have go || die "go is not in PATH: $how"
	version=$(go env GOVERSION) || die "this Go is too old: $how"
	version=${version#go}
	printf '%s\n' "$go_needed" "${version%%[!0-9.]*}" | sort -CV || die "Go $version is too old: $how"
}

# by_hand prints what to install with the package managers that this script does not drive, this machine's first.
by_hand() {
	local manager more=''
	[ "$1" != generate ] || more=' clang llvm'
	[ "$1" != ci ] || more=' clang llvm tmux bpftool libbpf-tools linux-perf'
	[ "$1" != pictures ] || more=' tmux aha chromium curl nodejs npm and the font DejaVu Sans Mono'
	[ "$1" != fresh-check ] || more=' debootstrap'
	[[ $1 != vm* ]] || die "make test-vm takes a Debian or Ubuntu: kernels come from Debian's packages"
	printf 'setup: lacking here, by their Debian names:\n%ssetup: install by hand, then try again:\n' "$why"
	for manager in $(for m in dnf pacman apk; do ! have $m || echo $m; done) dnf pacman apk; do
		case $manager in
		dnf) echo "  dnf install gcc make pkgconf-pkg-config libbpf-devel elfutils-libelf-devel zlib-devel kernel-headers$more" ;;
		pacman) echo "  pacman -S --needed gcc make pkgconf libbpf libelf zlib linux-api-headers$more" ;;
		apk) echo "  apk add gcc musl-dev make pkgconf libbpf-dev elfutils-dev zlib-dev linux-headers$more" ;;
		esac
	done | awk '!seen[$0]++'
	echo "  (if libbpf stays older than $libbpf_needed: $use_submodule)"
	exit 1
}

case ${1:-} in '' | generate | ci | pictures | fresh-check | vm | vm-arm64) ;; *) die "unknown argument $1" ;; esac
check_go
look "${1:-}"
if [ ${#packages[@]} -gt 0 ]; then
	have apt-get || by_hand "${1:-}"
	printf 'setup: installing\n%s' "$why"
	scripts/apt-install.sh "${packages[@]}" || exit 1
	look "${1:-}"
	case " ${packages[*]} " in
	'  ') echo "setup: done" ;;
	*' libbpf-dev '* | *' linux-libc-dev '*)
		die "this system's libbpf ($(pkg-config --modversion libbpf 2>/dev/null || echo none)) or kernel headers are too old:" \
			"libbpf $libbpf_needed and headers of Linux 6.10 are needed. Get the project's copy, then try again:
  $use_submodule" ;;
	*) die "still lacking: ${packages[*]}" ;;
	esac
fi
scripts/libbpf.sh
