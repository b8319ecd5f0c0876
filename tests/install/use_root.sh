#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Uses what was installed into a root folder, and nothing of the build: compiles examples with
# pkg-config, runs them, asks the tools, reads the manual pages. Sourced by the tests beside it.

failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
}

skip() {
    echo "skipped: $*"
    exit 77
}

# use_root ROOT EXAMPLES CC...: EXAMPLES is a folder with their sources
use_root() {
    local root=$1 examples=$2 pc lib bin man flags work page
    shift 2
    pc=$(find "$root" -name utofu.pc)
    lib=$(dirname "$(find "$root" -name 'libtofucom.so.1')")
    bin=$(dirname "$(find "$root" -name utofurun -type f)")
    man=$(dirname "$(dirname "$(find "$root" -name utofu_put.3 -o -name utofu_put.3.gz)")")
    [ -f "$pc" ] && [ -d "$lib" ] && [ -d "$bin" ] && [ -d "$man" ] ||
        { fail "installed: '$pc' '$lib' '$bin' '$man'"; return; }
    work=$(mktemp -d)

    flags=$(PKG_CONFIG_LIBDIR=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR=$root \
        PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 \
        pkg-config --cflags --libs utofu) || fail "pkg-config utofu"
    for program in pingpong_notice pingpong_memory; do
        # shellcheck disable=SC2086 # the flags are words
        "$@" -std=gnu11 -Wall -Wextra -Werror -o "$work/$program" "$examples/$program.c" \
            "$examples/meet.c" $flags || fail "compile $program with $flags"
        LD_LIBRARY_PATH=$lib ldd "$work/$program" | grep -q "libtofucom.so.1 => $lib/" ||
            fail "$program does not use the installed library"
        LD_LIBRARY_PATH=$lib "$bin/utofurun" -n 2 --timeout 60 "$work/$program" ||
            fail "run $program"
    done

    UTOFU_PROVIDER=shm "$bin/utofu-info" --check >"$work/out" 2>&1 ||
        { fail "utofu-info --check"; cat "$work/out"; }
    "$bin/utofurun" -n 2 "$bin/utofu-perf" --quiet -s 8 -n 100 put-lat >"$work/out" 2>&1 ||
        { fail "utofu-perf"; cat "$work/out"; }

    # a stub that says that the system has no manual pages is no man
    if man --version 2>/dev/null | grep -q '^man '; then
        for page in utofu_put putofu_put utofu utofu-verbs utofurun utofu-info utofu-perf; do
            LC_ALL=C.UTF-8 MANWIDTH=100 man -M "$man" "$page" >"$work/$page" 2>&1 ||
                { fail "man $page"; cat "$work/$page"; }
        done
        for text in 'PARAMETERS' 'bytes' 'RETURN VALUE' 'UTOFU_ERR_BUSY' 'THREAD SAFETY' 'SEE ALSO'; do
            grep -q "$text" "$work/utofu_put" || fail "man utofu_put does not tell $text"
        done
        cmp -s "$work/utofu_put" "$work/putofu_put" || fail "man putofu_put is another page"
        grep -q '^ *UTOFU_PROVIDER' "$work/utofu-verbs" || fail "man utofu-verbs lacks variables"
    else
        echo 'not tried: man is not installed'
    fi
    rm -rf "$work"
}
