#!/usr/bin/env bash
# Proves the set-up: runs the README's commands, and the tests, in a new Debian 12 that has nothing but what the README asks for
# beforehand. What is tried are the files of the working tree: see scripts/chroot.sh. Needs root.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/chroot.sh" fresh-check 'make install' 'ringfold demo' 'ringfold list -o json' 'make test'
