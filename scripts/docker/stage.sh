#!/usr/bin/env bash
# The steps of Dockerfile.build:  scripts/docker/stage.sh base|libbpf|modules|static|test
# A layer has only the files that its step needs, so that Docker keeps it until one of them changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case ${1:-} in
base) scripts/apt-install.sh gcc libc6-dev make pkg-config libelf-dev zlib1g-dev ;;
libbpf)
	scripts/libbpf.sh
	[ -e build/libbpf/lib/libbpf.a ] || { echo "libbpf/ is empty: run 'git submodule update --init libbpf' before" >&2; exit 1; }
	;;
modules) go mod download && go -C cmd/ringfold mod download ;;
static) scripts/static.sh ;;
test) scripts/env.sh go test -timeout 4m ./... ;; # kernel tests find no privilege here, and skip
*) echo "stage.sh: unknown step '${1:-}'" >&2; exit 1 ;;
esac
