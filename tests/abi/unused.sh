#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# UTOFU_WARN_UNUSED: of each function that returns a code a program which ignores it is warned of, and one
# which uses it is not; without the macro neither is. The examples compile with it.
#
# usage: unused.sh SOURCE-FOLDER COMPILER...      C compilers; those that are not there are left out
set -u
export LC_ALL=C
unset MAKEFLAGS
source=$1
shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0 compilers=0

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# calls PREFIX: every function of the headers that returns int, called with zeros, one in a line
calls() {
    cat "$source/include/utofu.h" "$source/include/utofu_profile.h" "$source/include/utofu_ext.h" |
        awk -v prefix="$1" '
        /^int p?utofu_[a-z0-9_]+\(/ { decl = ""; open = 1 }
        open { decl = decl $0 }
        open && /;/ {
            open = 0
            name = decl
            sub(/^int /, "", name)
            sub(/\(.*/, "", name)
            n = gsub(/,/, ",", decl) + 1
            args = "0"
            while (--n > 0)
                args = args ", 0"
            printf "    %s%s(%s);\n", prefix, name, args
        }'
}

# program FILE PREFIX: line N + 5 has call N
program() {
    {
        printf '#include <utofu.h>\n#include <utofu_profile.h>\n#include <utofu_ext.h>\n'
        printf 'int program(int rc);\nint program(int rc) {\n'
        calls "$2"
        printf '    return rc;\n}\n'
    } >"$tmp/$1"
}

# ignored codes that nobody is warned of, on purpose: see utofu_ext.h
free_to_ignore='utofu_profile_seen|utofu_profile_start|utofu_profile_stop|utofu_wait_vcqs'

program wrong.c ''
program right.c 'rc |= '
[ "$(calls '' | wc -l)" -ge 131 ] || fail "$(calls '' | wc -l) functions found"

flags=(-std=c99 -pedantic -Wall -Wextra -Wredundant-decls -c -o /dev/null -I "$source/include")
for cc in "$@"; do
    command -v "${cc%% *}" >/dev/null || continue
    compilers=$((compilers + 1))
    # shellcheck disable=SC2086 # a compiler may come with ccache
    $cc "${flags[@]}" -Werror "$tmp/wrong.c" >"$tmp/out" 2>&1 ||
        { fail "$cc warns without the macro"; head -n 5 "$tmp/out"; }
    $cc "${flags[@]}" -Werror -DUTOFU_WARN_UNUSED "$tmp/right.c" >"$tmp/out" 2>&1 ||
        { fail "$cc warns of a right program"; head -n 5 "$tmp/out"; }
    $cc "${flags[@]}" -DUTOFU_WARN_UNUSED "$tmp/wrong.c" >"$tmp/out" 2>&1
    number=5
    while read -r call; do
        number=$((number + 1))
        name=${call%%(*}
        warned=$(grep -c "wrong.c:$number:.*\[-Wunused-result\]" "$tmp/out")
        wanted=1
        [[ $name =~ ^($free_to_ignore)$ ]] && wanted=0
        [ "$warned" = $wanted ] || fail "$cc: $name has $warned warnings, not $wanted"
    done < <(calls '')
done
[ $compilers -ge 1 ] || fail "no compiler of $*"

# the same in C++
if command -v g++ >/dev/null; then
    cat >"$tmp/cxx.cpp" <<'END'
#include <utofu.h>
#include <utofu_profile.h>
#include <utofu_ext.h>
int wrong(utofu_vcq_hdl_t vcq) { utofu_free_vcq(vcq); putofu_free_vcq(vcq); return utofu_free_vcq(vcq); }
END
    g++ -std=c++17 -pedantic -Wall -Wextra -c -o /dev/null -I "$source/include" -DUTOFU_WARN_UNUSED \
        "$tmp/cxx.cpp" >"$tmp/out" 2>&1 || fail "C++: $(cat "$tmp/out")"
    [ "$(grep -c 'warning: .*Wunused-result' "$tmp/out")" = 2 ] || fail "C++: $(cat "$tmp/out")"
fi

# the examples
flags=(-std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -c -o /dev/null -DUTOFU_WARN_UNUSED -I "$source/include")
checked=0
for program in "$source"/examples/*.c; do
    compiler=$1
    case $program in
    *_mpi.c) compiler=$(command -v mpicc.openmpi || command -v mpicc.mpich) || continue ;;
    esac
    checked=$((checked + 1))
    $compiler "${flags[@]}" -I "$source/layers/acp" -I "$source/layers/lapi" "$program" \
        >"$tmp/out" 2>&1 || { fail "${program#"$source"/}"; grep -m 3 'error\|warning' "$tmp/out"; }
done
[ $checked -ge 15 ] || fail "$checked programs"

[ $failures -eq 0 ] && echo "ok: $(calls '' | wc -l) functions, $compilers compilers, $checked programs"
exit $((failures > 0))
