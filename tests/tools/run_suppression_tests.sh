#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: run_suppression_tests.sh valgrind|thread|address, with BUILD and SOURCE naming the folders
# and CC the compiler
# A program has no findings under the tool with the file of suppressions/, and has some without.
set -u

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bad=0
file=$SOURCE/suppressions

# judge NAME WANTED-STATUS COMMAND...: the status is 0, or not
judge() {
    local name=$1 wanted=$2 rc=0
    shift 2
    "$@" >"$folder/out" 2>&1 || rc=$?
    if { [ "$wanted" = 0 ] && [ $rc = 0 ]; } || { [ "$wanted" != 0 ] && [ $rc != 0 ]; }; then
        echo "ok: $name"
    else
        echo "FAILED: $name: status $rc"
        cat "$folder/out"
        bad=1
    fi
}

skip() {
    echo "skipped: $1"
    exit 77
}

# build SANITIZER SOURCE...
build() {
    local sanitizer=$1
    shift
    # shellcheck disable=SC2086 # CC may have arguments
    $CC -g -fsanitize="$sanitizer" -I"$SOURCE/include" -o "$folder/program" "$@" -L"$BUILD" -ltofucom \
        -Wl,-rpath,"$BUILD" >"$folder/log" 2>&1 || skip "no compiler with -fsanitize=$sanitizer"
}

pingpong=("$SOURCE/examples/pingpong_notice.c" "$SOURCE/examples/meet.c")
run=("$BUILD/tools/utofurun" -n 2)
case $1 in
valgrind)
    command -v valgrind >/dev/null || skip 'no valgrind'
    memcheck=(valgrind -q --error-exitcode=9 --leak-check=full)
    program=$folder/program
    # shellcheck disable=SC2086
    $CC -g -I"$SOURCE/include" -o "$program" "${pingpong[@]}" -L"$BUILD" -ltofucom -Wl,-rpath,"$BUILD" ||
        skip 'no compiler'
    judge clean_with_the_file 0 "${run[@]}" "${memcheck[@]}" --suppressions="$file/valgrind.supp" "$program"
    judge the_file_is_needed 9 "${run[@]}" "${memcheck[@]}" "$program"
    # an error of the program itself is still found
    printf '%s\n' '#include <stdlib.h>' 'int main(void) { volatile int *p = malloc(4); return *p ? 0 : 0; }' >"$folder/p.c"
    # shellcheck disable=SC2086
    $CC -g -o "$folder/program" "$folder/p.c" || skip 'no compiler'
    judge errors_of_programs_are_seen 9 "${memcheck[@]}" --suppressions="$file/valgrind.supp" "$folder/program"
    ;;
thread)
    build thread "${pingpong[@]}"
    export TSAN_OPTIONS="suppressions=$file/tsan.supp"
    judge clean_with_the_file 0 "${run[@]}" "$folder/program"
    # the library's thread uses memory that the program's thread frees in most runs, not in all
    # shellcheck disable=SC2317 # judge calls it
    any_of() { for _ in $(seq "$1"); do "${@:2}" || return; done; }
    TSAN_OPTIONS='' judge the_file_is_needed 66 any_of 20 "${run[@]}" "$folder/program"
    ;;
address)
    build address "${pingpong[@]}"
    judge clean_without_a_file 0 "${run[@]}" "$folder/program"
    ;;
esac
exit $bad
