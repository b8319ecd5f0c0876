#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: changed_tests_test.sh SOURCE
# scripts/changed-tests names the tests of the modules that a change touches, in a small git repository.
set -eu
source=$1
command -v git >/dev/null || { echo 'skipped: git is not installed'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tree=$folder/tree
mkdir -p "$tree/scripts" "$tree/docs/design" "$tree/src/barrier" "$tree/src/util" "$tree/layers/acp" "$tree/tests/shm_map" \
    "$tree/build/meson-info"
cp "$source/scripts/changed-tests" "$source/scripts/module-graph" "$tree/scripts/"
cp "$source/docs/design/architecture.md" "$tree/docs/design/"
for file in src/barrier/gate.c src/util/log.c layers/acp/acp.c tests/shm_map/test_heap.c meson.build; do echo x >"$tree/$file"; done
printf 'build\n' >"$tree/.gitignore"
{
    echo '['
    for suite in api barrier acp map core tools man; do
        for tier in quick full nightly; do
            printf '{"name": "%s_%s", "suite": ["x:%s", "x:%s"]},\n' $suite $tier $tier $suite
        done
    done
    echo '{"name": "in_guest", "suite": ["x:guest"]}]'
} >"$tree/build/meson-info/intro-tests.json"
cd "$tree"
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
git init -q . && git add . && git commit -q -m first

bad=0
check() { # NAME TESTS: the tests that are named
    name=$1
    shift
    scripts/changed-tests HEAD~0 >"$folder/out" 2>"$folder/err" || { echo "FAILED: $name"; cat "$folder/err"; bad=1; }
    got=$(sort "$folder/out" | tr '\n' ' ')
    if [ "$got" = "$*${1:+ }" ]; then echo "ok: $name"; else echo "FAILED: $name: $got"; bad=1; fi
    git checkout -q . && git clean -qfd
}
check nothing
echo y >src/barrier/gate.c
check a_module_and_what_uses_it api_quick barrier_full barrier_quick
echo y >layers/acp/acp.c
check a_layer acp_full acp_quick
echo y >src/barrier/new.c
check a_file_that_is_not_yet_added api_quick barrier_full barrier_quick
echo y >tests/shm_map/test_heap.c
check tests_of_a_suite map_full map_quick
echo y >src/util/log.c
check what_most_modules_use acp_quick api_quick barrier_quick core_full core_quick man_quick map_quick tools_quick
echo y >meson.build
check a_file_of_no_module acp_quick api_quick barrier_quick core_quick man_quick map_quick tools_quick
echo y >layers/acp/acp.c && git commit -q -a -m second
scripts/changed-tests HEAD~1 2>/dev/null | sort | tr '\n' ' ' | grep -qx 'acp_full acp_quick ' ||
    { echo 'FAILED: a commit'; bad=1; }
if scripts/changed-tests no-such-revision >/dev/null 2>"$folder/err" || ! grep -q 'no-such-revision' "$folder/err"; then
    echo 'FAILED: no such revision'
    bad=1
fi
exit $bad
