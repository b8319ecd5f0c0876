#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# builds_no_tests.sh SOURCE MESON...: a build folder that was set up without options builds no test and no fuzzer, and
# one with -Dtests=enabled does. Nothing is compiled: Ninja lists its targets.
set -u

source=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0
count() { # WORDS OPTION...: sets `number` to how many targets are made of tests/ or with a sanitizer
    local words=$1
    shift
    if ! "$meson" setup "$folder/$words" "$source" "$@" >"$folder/out" 2>&1; then
        tail "$folder/out"
        echo "FAILED: meson setup $*"
        exit 1
    fi
    number=$(ninja -C "$folder/$words" -t targets all | grep -c '^tests/')
    sanitized=$(grep -c -- '-fsanitize' "$folder/$words/build.ninja")
    echo "$words: $number targets of tests/, $sanitized commands with a sanitizer"
}

meson=$1
count by_default
[ "$number" = 0 ] && [ "$sanitized" = 0 ] || failed=1
count when_asked_for -Dtests=enabled # the bad twin: such targets are seen
[ "$number" -gt 100 ] || failed=1
[ $failed = 0 ] && echo ok || echo FAILED
exit $failed
