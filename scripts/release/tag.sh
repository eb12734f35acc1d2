#!/usr/bin/env bash
# Tags HEAD as a release, in a repository of its own, and prints the tags, one "NAME COMMIT" a line:
#
#   scripts/release/tag.sh VERSION REPOSITORY MODULE...
#
# A MODULE is the directory of a nested module that users import or install. In the tree their go.mod files replace each other by directories, so that a change of several modules is
# one commit. Users' go.mod files must not depend on that: `go install` refuses a main module with replacements, and `go get`
# ignores those of others, but wants the versions. So nested modules are tagged on a commit of its own, HEAD's child, whose
# go.mod files require VERSION and replace nothing. Its files are HEAD's otherwise, and no branch has it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$1 repository=$2
shift 2
modules=("$@")
module=$(go list -m)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GIT_INDEX_FILE=$work/index
git read-tree HEAD
for directory in "${modules[@]}"; do
	git show "HEAD:$directory/go.mod" >"$work/go.mod"
	for other in "$module" "${modules[@]/#/$module/}"; do
		! grep -qE "^(require)?[[:space:]]*$other v" "$work/go.mod" || go mod edit -dropreplace "$other" -require "$other@$version" "$work/go.mod"
	done
	! grep '=>' "$work/go.mod" || { echo "release: $directory/go.mod needs what is not released" >&2; exit 1; }
	git update-index --cacheinfo "100644,$(git hash-object -w "$work/go.mod"),$directory/go.mod"
done
tree=$(git write-tree)
unset GIT_INDEX_FILE
head=$(git rev-parse HEAD)
# The same commit whenever HEAD is the same.
date=$(git log -1 --format=%cI)
commit=$(GIT_AUTHOR_NAME=$(git log -1 --format=%cn) GIT_AUTHOR_EMAIL=$(git log -1 --format=%ce) GIT_AUTHOR_DATE=$date \
	GIT_COMMITTER_NAME=$(git log -1 --format=%cn) GIT_COMMITTER_EMAIL=$(git log -1 --format=%ce) GIT_COMMITTER_DATE=$date \
	git commit-tree "$tree" -p "$head" -m "release: nested modules of $version")

tags=("$version $head")
for directory in "${modules[@]}"; do tags+=("$directory/$version $commit"); done
git init -q --bare "$repository"
for tag in "${tags[@]}"; do
	git push -q --no-verify "$repository" "${tag#* }:refs/tags/${tag% *}"
	echo "$tag"
done
