#!/usr/bin/env bash
# Checks that new modules of users can use a release that scripts/release/tag.sh has tagged:
#
#   scripts/release/check.sh VERSION REPOSITORY CACHE
#
# Each imports one package and nothing else. `go mod tidy` must find it, and the program must build from the release.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$1 repository=$2 cache=$3
module=$(go list -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "release: $*" >&2; exit 1; }
go_user() { scripts/env.sh scripts/release/env.sh "$repository" "$cache" go -C "$work" "$@"; }

for package in $(go list ./perfbuf/... ./dropin/perf ./dropin/ringbuf) $(go -C perfbuf/promperf list ./...) $(go -C perfbuf/otelperf list ./...); do
	rm -rf "${work:?}"/*
	printf 'package main\n\nimport _ "%s"\n\nfunc main() {}\n' "$package" >"$work/main.go"
	go_user mod init example.org/user 2>/dev/null
	log=$(go_user mod tidy 2>&1) || die "go mod tidy fails in a module that imports $package: $log"
	log=$(go_user build -o "$work/user" . 2>&1) || die "a program that imports $package does not build: $log"
	contents=$(go version -m "$work/user")
	grep -qP "^\tdep\t$module\t\Q$version\E\t" <<<"$contents" || die "a program that imports $package is not of $version: $contents"
	# What only tests need is neither in users' programs nor their go.mod files.
	for unwanted in github.com/aquasecurity/libbpfgo github.com/stretchr/testify; do
		! grep -qF "$unwanted" "$work/go.mod" <(echo "$contents") || die "whoever imports $package gets $unwanted, too"
	done
	echo "release: a new module can import $package"
done
