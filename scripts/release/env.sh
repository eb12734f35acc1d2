#!/usr/bin/env bash
# Runs a command for which Go finds this project's modules in a repository that scripts/release/tag.sh has made, by their tags, as
# it will find them in the public one:  scripts/release/env.sh REPOSITORY CACHE go install ...
# They come into the module cache CACHE, as the tags are not final; other modules come from where they always do.
set -euo pipefail
repository=$(realpath "$1") cache=$(realpath -m "$2")
shift 2
module=github.com/ringfold/ringfold

# git goes to the repository instead of the network.
n=${GIT_CONFIG_COUNT:-0}
export GIT_CONFIG_COUNT=$((n + 1)) "GIT_CONFIG_KEY_$n=url.file://$repository.insteadOf" "GIT_CONFIG_VALUE_$n=https://$module"
# Neither a proxy nor the checksum database know these versions. This machine's module cache is a proxy for all others.
GONOPROXY=$(go env GONOPROXY),$module GONOSUMDB=$(go env GONOSUMDB),$module
GOPROXY=file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
GOFLAGS="$(go env GOFLAGS) -modcacherw"
export GONOPROXY GONOSUMDB GOPROXY GOFLAGS GOMODCACHE=$cache GOWORK=off
exec "$@"
