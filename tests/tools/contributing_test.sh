#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: contributing_test.sh SOURCE BUILD MESON
# Every command of CONTRIBUTING.md and docs/reference/tests.md: what takes seconds is run; of the rest, the
# script has the options, and Meson the tests and suites.
set -u

source=$1 build=$2 meson=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bad=0

fail() {
    echo "FAILED: $command: $*"
    [ ! -s "$folder/out" ] || sed 's/^/    /' "$folder/out" | tail -20
    bad=1
}

# ran WORD...: runs the command in a copy of the source folder with the build folder
ran() {
    (cd "$folder/tree" && timeout 800 "$@") >"$folder/out" 2>&1 </dev/null || fail "exit status $?"
}

has_options() { # SCRIPT OPTION...
    local script=$1 option help=(--help)
    shift
    [ "$script ${1-}" != 'scripts/rxe-vm tests' ] || help=(tests --help)
    [ -x "$folder/tree/$script" ] || { fail "there is no $script"; return; }
    "$folder/tree/$script" "${help[@]}" >"$folder/out" 2>&1 || fail '--help fails'
    for option; do
        case $option in
        --) return ;;
        --*) grep -qe "$option\b" "$folder/out" || fail "$script has no $option" ;;
        esac
    done
}

# suite or test NAME exist
known() { # WORD... behind "meson test -C build"
    while [ $# -gt 0 ]; do
        case $1 in
        --suite) shift; grep -qE "[:+]$1( /|\+)" "$folder/tests" || fail "there is no suite $1" ;;
        --list | --no-rebuild) ;;
        -*) fail "what is $1?" ;;
        *) grep -qF " / $1" "$folder/tests" || fail "there is no test $1" ;;
        esac
        shift
    done
}

mkdir "$folder/tree"
ln -s "$source"/* "$folder/tree/"
rm -f "$folder/tree/build"
ln -s "$build" "$folder/tree/build"
"$meson" test -C "$build" --list --no-rebuild >"$folder/tests" 2>/dev/null || { echo 'meson test --list fails'; exit 1; }

number=0
declare -A seen
while read -r command; do
    number=$((number + 1))
    [ -z "${seen[$command]-}" ] || continue # on both pages
    seen[$command]=1
    : >"$folder/out"
    eval "words=($command)"
    # shellcheck disable=SC2154 # by eval
    set -- "${words[@]}"
    case "$*" in
    'meson setup build -Dtests=enabled') grep -q "^option('tests'" "$source/meson_options.txt" || fail 'no such option' ;;
    'meson compile -C build') ;;
    'meson test -C build '*) shift 4; known "$@" ;;
    'ninja -C build '*)
        shift 3
        for target; do grep -q "^build $target: " "$build/build.ninja" || fail "there is no $target"; done ;;
    'scripts/rxe-vm tests '*) has_options "$@" ;;
    'scripts/rxe-vm '*)
        has_options "$@"
        while [ "$1" != -- ]; do shift; done
        shift
        case "$*" in 'meson test -C build '*) shift 4; known "$@" ;; *) fail 'what is run there?' ;; esac ;;
    'scripts/mutate --check' | 'scripts/mutate --list') ran "$@" ;;
    'scripts/mutate '[a-z]*) grep -q "^\[$2\]\|\"$2\"" "$source/tests/mutations.toml" || fail 'no such mutation' ;;
    scripts/*) has_options "$@" ;;
    build/tests/*) ran "$@" ;;
    'UT_LIVES='*) # hours
        grep -q "^build ${3#build/}: " "$build/build.ninja" || fail "there is no $3" ;;
    'tests/tutorial/check_tutorial.py fix '*)
        if ! grep -q " $2 SOURCES BUILD PAGE" "$source/$1" || [ ! -e "$source/docs/tutorial/en/$5.md" ]; then
            fail "check_tutorial.py has no $2, or the tutorial no $5"
        fi ;;
    'build/tools/utofurun '*)
        program=${*: -1}
        grep -q "^build ${program#build/}: " "$build/build.ninja" || fail "there is no $program" ;;
    'tests/slurm/run_slurm_tests.sh start '*) grep -q "^$5() {" "$source/$1" || fail "there is no case $5" ;;
    *) fail 'is not known here: how is it tried?' ;;
    esac
done < <(sed -n '/^```sh/,/^```/{/^```/d;s/ *#.*//;/./p}' "$source/CONTRIBUTING.md" "$source/docs/reference/tests.md")
[ "$number" -ge 15 ] || { echo "FAILED: only $number commands were found"; bad=1; }
echo "contributing: $number commands"
exit $bad
