#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# shell_lines_test.sh UTOFU-INFO LIBDIR BUILD [PYTHON-FOLDER]: the lines of utofu-info --env name the folders of the installation that
# the program lies in, wherever that is, and keep what the variables had.

info=$(realpath "$1") libdir=$2 build=$3 python=$4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
checks=0

# shellcheck source=tests/harness/checks.sh
. "$(dirname "$0")/../harness/checks.sh"

# equal WHAT VALUE EXPECTED
equal() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || fail "$1: is '$2', not '$3'"
}

prefix="$folder/it's a \$HOME"
mkdir -p "$prefix/bin"
cp "$info" "$prefix/bin/utofu-info"
lines=$("$prefix/bin/utofu-info" --env) || fail "--env ended with status $?"
(
    PATH=/before:$PATH
    was=$PATH
    unset LD_LIBRARY_PATH LIBRARY_PATH PKG_CONFIG_PATH CPATH MANPATH PYTHONPATH XDG_DATA_DIRS FPATH
    eval "$lines"
    equal PATH "$PATH" "$prefix/bin:$was"
    equal LD_LIBRARY_PATH "$LD_LIBRARY_PATH" "$prefix/$libdir"
    equal LIBRARY_PATH "$LIBRARY_PATH" "$prefix/$libdir"
    equal PKG_CONFIG_PATH "$PKG_CONFIG_PATH" "$prefix/$libdir/pkgconfig"
    equal CPATH "$CPATH" "$prefix/include"
    equal MANPATH "$MANPATH" "$prefix/share/man:" # the empty end: man's own folders
    [ -z "$python" ] || equal PYTHONPATH "$PYTHONPATH" "$prefix/$python"
    equal XDG_DATA_DIRS "$XDG_DATA_DIRS" "$prefix/share:/usr/local/share:/usr/share" # what is meant where it is not set
    equal 'FPATH of another shell' "${FPATH-none}" none
    # shellcheck disable=SC2034 # the lines look at ZSH_VERSION
    equal 'FPATH of zsh' "$(ZSH_VERSION=5 FPATH=/functions; eval "$lines"; echo "$FPATH")" \
        "$prefix/share/zsh/site-functions:/functions"
    XDG_DATA_DIRS=/mine CPATH=/mine
    eval "$lines"
    equal "CPATH with a value" "$CPATH" "$prefix/include:/mine"
    equal 'XDG_DATA_DIRS with a value' "$XDG_DATA_DIRS" "$prefix/share:/mine"
    [ "$(bash -c 'echo "$CPATH"')" = "$CPATH" ] || fail "CPATH is not exported"
    exit "$failures"
) || failures=$?
(
    eval "$("$build/tools/utofu-info" --env)"
    equal "PKG_CONFIG_PATH of a build folder" "${PKG_CONFIG_PATH%%:*}" "$build/meson-uninstalled"
    [ -z "$python" ] || equal "PYTHONPATH of a build folder" "${PYTHONPATH%%:*}" "$build/bindings/python"
    pkg-config --exists utofu || fail "pkg-config does not find the library of the build folder"
    exit "$failures"
) || failures=$?
mkdir "$folder/elsewhere"
cp "$info" "$folder/elsewhere/utofu-info"
check elsewhere 1 'is neither in PREFIX/bin nor in a build folder' 1 "$folder/elsewhere/utofu-info" --env
check with_another 2 'goes together with no other option' 1 "$info" --env --json
[ "$failures" = 0 ] && echo "shell_lines: passed"
exit $((failures > 0))
