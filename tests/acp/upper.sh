#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The flags of acpbl_utofu.pc link the hooks of ACP's upper layers from static libraries; without the
# corresponding part the library lacks them.
#
# usage: upper.sh UTOFURUN BUILD SOURCES CC...
utofurun=$1 build=$2 sources=$3
shift 3
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    cat "$work/out" "$work/err"
}

command -v pkg-config >/dev/null || { echo 'skipped: pkg-config is not installed'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/err"
export PKG_CONFIG_PATH=$build/meson-uninstalled
read -ra flags <<<"$(pkg-config --cflags --libs acpbl_utofu)"
for name in init channel malloc; do # commons, as one member is to be enough for the program
    "$@" -fcommon -c "$sources/upper_$name.c" -o "$work/upper_$name.o" || exit 1
done
ar crs "$work/libupper.a" "$work"/upper_*.o || exit 1

# links PROGRAM FLAGS...: the library behind the flags
links() {
    local program=$1
    shift
    "${cc[@]}" -o "$program" "$sources/upper.c" "$@" -L"$work" -lupper "-Wl,-rpath,$build/layers/acp:$build" \
        "-Wl,-rpath-link,$build" >"$work/out" 2>&1
}

cc=("$@")
links "$work/with" "${flags[@]}" && "$utofurun" --timeout 60 -n 2 "$work/with" >"$work/out" 2>"$work/err" &&
    [ "$(sort -u "$work/out")" = memory ] || fail "the hooks are not called, with ${flags[*]}"
nm "$work/with" | grep -q ' iacp_init_cl$' || fail 'the hook of the channels is not in the program'
without=()
for flag in "${flags[@]}"; do
    case $flag in *iacp_init*) ;; *) without+=("$flag") ;; esac
done
[ ${#without[@]} -lt ${#flags[@]} ] || fail "no flag names the hooks: ${flags[*]}"
links "$work/without" "${without[@]}" && "$utofurun" --timeout 60 -n 2 "$work/without" >"$work/out" 2>"$work/err" &&
    [ "$(sort -u "$work/out")" = null ] || fail 'the check does not see hooks that are missing'

# nor does a program without upper layers need any
"${cc[@]}" -o "$work/alone" -x c - "${flags[@]}" "-Wl,-rpath,$build/layers/acp:$build" "-Wl,-rpath-link,$build" \
    >"$work/out" 2>&1 <<'END' && "$utofurun" --timeout 60 -n 2 "$work/alone" >"$work/out" 2>&1 ||
#include <acp.h>
int main(int argc, char **argv) { return acp_init(&argc, &argv) || acp_finalize(); }
END
    fail 'a program without upper layers'
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
