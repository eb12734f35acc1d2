#!/usr/bin/env bash
# Builds a Rust crate that uses aya, from the crates that Debian packages (crates.io is not asked):
#
#   scripts/aya.sh CRATE PRODUCT OUT    builds the crate in the directory CRATE, and copies its library or program PRODUCT to OUT
#
# Prints aya's version, and a checksum of OUT behind a +. Where that cannot be, it says why, and exits with 1. Needs cargo 1.70 and apt.
# Packages are unpacked below build/aya, once; nothing is installed. SUITE names another release of Debian.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/apt.sh
suite=${SUITE:-trixie}
crate=$1 product=$2 out=$3
state=$PWD/build/aya
registry=$state/$suite/usr/share/cargo/registry

without() { echo "aya.sh: no aya: $*" >&2; exit 1; }

# crates unpacks the packages of aya and of all that it needs. Perl and others, which these name too, are left out.
crates() {
	local apt=() packages=()
	own_apt apt "$state/apt" "deb" "$suite" || return
	"${apt[@]}" update >&2 || return
	mapfile -t packages < <("${apt[@]}" install --simulate --no-install-recommends librust-aya-dev |
		awk '$1 == "Inst" && $2 ~ /^librust-/ { print $2 }')
	[ ${#packages[@]} -gt 0 ] || { echo "there is no package librust-aya-dev in $suite" >&2; return 1; }
	rm -rf "$state/debs" "$state/unpack"
	mkdir -p "$state/debs" "$state/unpack"
	(cd "$state/debs" && "${apt[@]}" download "${packages[@]}" >&2) || return
	local deb
	for deb in "$state/debs"/*.deb; do dpkg-deb -x "$deb" "$state/unpack" || return; done
	rm -rf "${state:?}/$suite" "$state/debs"
	mv "$state/unpack" "$state/$suite"
}

command -v cargo >/dev/null || without 'there is no cargo in PATH'
command -v apt-get >/dev/null || without 'there is no apt-get, which gets its crates'
mkdir -p "$state"
[ -d "$registry" ] || crates 2>"$state/crates.log" || without "its crates cannot be had: $(tail -n1 "$state/crates.log")"

# Built in a copy, as cargo writes Cargo.lock beside Cargo.toml.
source=$state/source/${crate//\//-}
mkdir -p "$source"
cp -a --update "$crate/." "$source/"
version=("$registry"/aya-[0-9]*)
export CARGO_TARGET_DIR=$state/target AYA_VERSION=${version[0]##*/aya-}
log=$source.log
cargo build --release --offline --manifest-path "$source/Cargo.toml" \
	--config 'source.crates-io.replace-with="debian"' --config "source.debian.directory=\"$registry\"" >"$log" 2>&1 ||
	without "cargo build fails, see ${log#"$PWD/"}: $(grep -m1 '^error' "$log")"
mkdir -p "$(dirname "$out")"
cp "$CARGO_TARGET_DIR/release/$product" "$out"
sum=$(cksum <"$out")
echo "$AYA_VERSION+${sum%% *}"
