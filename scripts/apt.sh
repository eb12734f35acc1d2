# shellcheck shell=bash
# Sourced: what of Debian's packages there is on this machine's mirror, without touching its own apt and dpkg.

# mirror_of RELEASE... prints where this machine's apt gets the first of these from that it knows.
mirror_of() {
	local known release
	# shellcheck disable=SC2016 # apt's variables. --no-release-info: also before the first update
	known=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages')
	for release in "$@"; do
		awk -v release="$release" '$1 == release { print $2; found = 1; exit } END { exit !found }' <<<"$known" && return
	done
	return 1
}

# debian_mirror prints a mirror of Debian: MIRROR, or the one that apt uses here.
debian_mirror() {
	if [ -n "${MIRROR:-}" ]; then echo "$MIRROR"; else mirror_of bookworm "$(. /etc/os-release && echo "${VERSION_CODENAME:-none}")"; fi
}

# own_apt NAME STATE deb|deb-src SUITE makes the array NAME an apt-get that knows this suite alone, and keeps its lists in STATE.
own_apt() {
	local -n command=$1
	local state=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror
	[ -e "$keyring" ] || { echo "$keyring is missing: install debian-archive-keyring" >&2; return 1; }
	mirror=$(debian_mirror) || { echo "no Debian mirror in apt's sources: name one with MIRROR=URL" >&2; return 1; }
	mkdir -p "$state"/{parts,state/lists/partial,cache/archives/partial}
	: >"$state/status"
	echo "$3 [signed-by=$keyring] $mirror $4 main" >"$state/sources.list"
	# shellcheck disable=SC2034 # it is the caller's
	command=(apt-get -qq -o "Dir::State=$state/state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache"
		-o "Dir::Etc::sourcelist=$state/sources.list" -o "Dir::Etc::sourceparts=$state/parts"
		-o "APT::Sandbox::User=$(id -un)" -o Acquire::Languages=none -o Acquire::Retries=3)
}

# fetch_source SUITE PACKAGE STATE downloads the upstream sources of a Debian package into the directory STATE/sources,
# which holds nothing else then.
fetch_source() {
	local suite=$1 package=$2 state=$3 apt=()
	own_apt apt "$state" deb-src "$suite" || return
	rm -rf "$state/sources"
	mkdir -p "$state/sources"
	"${apt[@]}" update >&2 && (cd "$state/sources" && "${apt[@]}" source --download-only --tar-only "$package" >&2)
}

# libbpf_sources RELEASE DIRECTORY prints where the sources of that release's libbpf are, below the directory; fetched if need be.
# With the network away, those fetched before will do.
libbpf_sources() {
	local release=$1 directory=$2 tarball version
	local known=$directory/$release.tarball
	mkdir -p "$directory"
	if fetch_source "$release" libbpf "$directory/apt/$release"; then
		for tarball in "$directory/apt/$release/sources"/*.tar.*; do
			mv "$tarball" "$directory/"
			echo "${tarball##*/}" >"$known"
		done
	fi
	[ -s "$known" ] || return 1
	tarball=$(<"$known") version=${tarball#libbpf_} version=${version%.orig.*}
	if [ ! -d "$directory/libbpf-$version" ]; then
		rm -rf "$directory/unpack" && mkdir "$directory/unpack"
		tar -C "$directory/unpack" -xf "$directory/$tarball" && mv "$directory/unpack"/* "$directory/libbpf-$version"
	fi
	echo "$directory/libbpf-$version"
}
