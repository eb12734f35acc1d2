#!/usr/bin/env bash
# Runs the commands of Dockerfile.build without Docker: in a new Debian 12, with the capabilities that a build has in Docker, and
# then a program alone, as the image has it. Where the submodule libbpf/ is not checked out, the sources of Debian 13's
# libbpf are put in its place. Needs root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. scripts/apt.sh

LIBBPF_SOURCES=$PWD/libbpf
[ -e libbpf/src/Makefile ] || LIBBPF_SOURCES=$(libbpf_sources trixie "$PWD/build/libbpf-matrix")
CAPABILITIES=chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,audit_write,setfcap
export LIBBPF_SOURCES CAPABILITIES
unset RINGFOLD_REQUIRE_KERNEL
mapfile -t commands < <(sed -n 's/^RUN //p' Dockerfile.build)
exec scripts/chroot.sh docker-check "${commands[@]}" 'chroot build/static /ringfold version' \
	'chroot build/static /ringfold demo --simulate --timeout 1s | tail -n1'
