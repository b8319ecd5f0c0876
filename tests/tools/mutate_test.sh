#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: mutate_test.sh MUTATE
# scripts/mutate on a project of one function and two tests.
set -eu
python3 -c 'import tomllib' 2>/dev/null || { echo 'skipped: python3 has no tomllib (3.11)'; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder/tmp
tree=$folder/tree
mkdir -p "$TMPDIR" "$tree"/{scripts,src,provider,tests}
cp -r "$1" "$1.d" "${1%/*}/source-files" "$tree/scripts/"
cat >"$tree/meson.build" <<'END'
project('small', 'c')
option = get_option('tests')
core = static_library('core', 'src/least.c')
test('by_meson', executable('by_meson', 'tests/least_of_two.c', link_with: core), suite: 'quick')
executable('alone', 'tests/least_of_two.c', link_with: core)
test('left_out', executable('left_out', 'tests/left_out.c', link_with: core))
executable('fails', 'tests/fails.c', link_with: core)
executable('unsteady', 'tests/unsteady.c', link_with: core)
executable('clears', 'tests/clears.c', link_with: core)
executable('executes', 'tests/executes.c', link_with: core)
END
echo "option('tests', type: 'feature', value: 'auto')" >"$tree/meson_options.txt"
cat >"$tree/src/least.c" <<'END'
int other(int a, int b);
int least(int a, int b);
int other(int a, int b)
{
    return a < b ? a : b;
}

int least(int a, int b)
{
    while (a < 0)
        a = 0;
    if (a == 12345)
        return 1;
    return a < b
               ? a : b;
}
END
cat >"$tree/tests/least_of_two.c" <<'END'
int least(int a, int b);
int main(void)
{
    return !(least(1, 2) == 1 && least(2, 1) == 1 && least(-1, 2) == 0);
}
END
echo 'int main(void) { return 77; }' >"$tree/tests/left_out.c"
echo 'int main(void) { return 1; }' >"$tree/tests/fails.c"
cat >"$tree/tests/unsteady.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
int least(int a, int b);
int main(void) /* notices a mutation each second time */
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/runs", getenv("TMPDIR"));
    FILE *runs = fopen(path, "a");
    fputc('.', runs);
    return least(1, 2) != 1 && ftell(runs) % 2 == 0;
}
END
cat >"$tree/tests/clears.c" <<'END'
#include <stdlib.h>
int least(int a, int b);
int main(void) /* its environment is its own */
{
    clearenv();
    return least(1, 2) != 1;
}
END
cat >"$tree/tests/executes.c" <<'END'
#include <unistd.h>
int least(int a, int b);
int main(int argc, char **argv) /* and that of a program that it executes */
{
    return argc > 1 ? least(1, 2) != 1 : execle(argv[0], argv[0], "again", NULL, (char *[]){NULL});
}
END
cat >"$tree/good.toml" <<'END'
[greatest]
function = "least"
old = "a < b ? a"
new = "a > b ? a"
caught_by = ["alone"]
[crashes]
function = "least"
old = "return 1;"
new = "return 2;"
caught_by = ["meson by_meson"]
reason = "nobody calls it with 12345"
[hangs]
function = "least"
old = "a = 0;"
new = ";"
caught_by = ["meson left_out", "alone"]
END
cat >"$tree/bad.toml" <<'END'
[survives]
function = "least"
old = "return 1;"
new = "return 0;"
caught_by = ["alone"]
[does_not_compile]
function = "least"
old = "return 1;"
new = "return one;"
caught_by = ["alone"]
[fails_anyway]
function = "least"
old = "return 1;"
new = "return 0;"
caught_by = ["fails"]
[left_out]
function = "least"
old = "return 1;"
new = "return 0;"
caught_by = ["meson left_out"]
END

bad=0
check() { # NAME RC PATTERN... -- OPTION...: exit status, and patterns in the output
    local name=$1 want=$2 rc=0 patterns=() good=yes pattern
    shift 2
    while [ "$1" != -- ]; do patterns+=("$1"); shift; done
    shift
    "$tree/scripts/mutate" "$@" >"$folder/out" 2>&1 || rc=$?
    [ "$rc" = "$want" ] || good=''
    for pattern in "${patterns[@]}"; do grep -Eq -- "$pattern" "$folder/out" || good=''; done
    [ -z "$(ls "$TMPDIR")" ] || good=''
    if [ -n "$good" ]; then echo "ok: $name"; return; fi
    echo "FAILED: $name, rc $rc"
    cat "$folder/out"
    ls "$TMPDIR"
    bad=1
}

table() { # the table of mutations, from standard input
    cat >"$tree/tests/mutations.toml"
}

entry() { # KEY=VALUE... in place of those of `greatest`
    local function=least old='a < b ? a' new='a > b ? a' caught_by='["alone"]' more=''
    local "$@"
    printf '[one]\nfunction = "%s"\nold = "%s"\nnew = "%s"\ncaught_by = %s\n%s\n' "$function" "$old" \
        "$new" "$caught_by" "$more" | table
}

table <"$tree/good.toml"
check applies 0 '^3 mutations, 0 errors$' -- --check
check list 0 '^greatest +src/least.c +alone$' '^crashes .*\(explained\)' -- --list
check tests_of 0 '^alone: greatest; hangs$' '^meson by_meson: crashes, explained$' '^meson left_out: hangs$' -- --tests-of least
check tests_of_none 1 '^no mutation changes other$' -- --tests-of other
check tests_of_unknown 2 'no source file defines a function most' -- --tests-of most
check all 0 '^ok +greatest .*caught by alone$' '^ok +crashes .*nobody calls it' \
    '^ok +hangs .*by alone, which hangs' '^2 of 3 mutations caught, 1 survived as explained$' -- --all
check by_name 0 '^1 of 1 mutations caught$' -- greatest
check two_at_once 0 '^1 of 2 mutations caught, 1 surv' -- --jobs 2 greatest crashes
check three_times 0 '^ok +greatest .*caught by alone$' -- --times 3 greatest
check no_time_left 0 '^0 of 0 mutations caught, 1 not begun' -- --minutes 0.00001 greatest
check random 0 '^seed abc: 1 of 3 mutations$' -- --random 1 --seed abc --minutes 0.00001
check seed_is_told 0 '^seed [0-9a-f]+: 3 of 3' -- --random 9 --minutes 0.00001
grep -q 'a < b$' "$tree/src/least.c" || { echo "FAILED: the tree itself was changed"; bad=1; }

table <"$tree/bad.toml"
check bad_ones 1 '^SURVIVED survives' 'ERROR +does_not_compile .*error:.*one' \
    'ERROR +fails_anyway .*without any mutation' '^left out left_out' \
    '^0 of 1 mutations caught, 1 survived, 1 left out, 2 could not be tried$' -- --all

# more than 20: one build has those within statements, and the others are tried alone, as those that survive there
{
    for i in {1..20}; do
        printf '[greatest_%s]\nfunction = "least"\nold = "a < b"\nnew = "b < a"\ncaught_by = ["alone"]\n' "$i"
    done
    cat "$tree/good.toml" "$tree/bad.toml"
    cat <<'END'
[is_not_in_the_environment]
function = "least"
old = "a < b"
new = "b < a"
caught_by = ["clears"]
[is_not_in_that_of_a_child]
function = "least"
old = "a < b"
new = "b < a"
caught_by = ["executes"]
[outside_of_statements]
function = "least"
old = "int a, int b"
new = "int a, const int b"
caught_by = ["alone"]
reason = "nothing changes b"
END
} | table
if python3 -c 'import sys; sys.path.append("/usr/lib/python3/dist-packages"); import clang.cindex' 2>/dev/null; then
    check one_build 1 '^ok +greatest_20 .*caught by alone$' '^ok +hangs .*by alone, which hangs' '^SURVIVED survives' \
        'ERROR +does_not_compile .*error:.*one' 'ERROR +fails_anyway .*without any mutation' '^left out left_out' \
        '^ok +is_not_in_the_env.*caught by clears$' '^ok +is_not_in_that.*caught by executes$' '^ok +outside_of_st.* as explained' \
        '^mutate: 24 of 30 mutations were tried in one build$' \
        '^24 of 27 mutations caught, 2 survived as explained, 1 survived, 1 left out, 2 could not be tried$' -- --all
    check minutes_of_one_build 0 '^0 of 0 mutations caught, 30 not begun' -- --all --minutes 0.00001
fi

entry caught_by='["unsteady"]'
check not_each_time 1 '^UNSTEADY one .*caught 2 of 3 times by unsteady$' '^0 of 1 mutations caught, 1 unsteady$' \
    -- --times 3 one

table <<'END'
[in_a_file]
file = "src/*.c"
old = "while (a < 0)"
new = "while (0)"
caught_by = ["alone"]
END
check tests_of_a_file 0 '^alone: in_a_file$' -- --tests-of least
check tests_of_another_function 1 'no mutation changes other' -- --tests-of other

entry old='a > b'
check gone 1 "one: does not apply any more: function least has no 'a > b'" -- --check
entry old='a'
check twice 1 'one: applies [0-9]+ times in function least' -- --check
entry function=no_such
check no_function 1 'one: does not apply any more: function no_such' -- --check
entry new='a < b ? a'
check no_change 1 'one: changes nothing' -- --check
entry caught_by='["alone this_test"]'
check no_such_test 1 'one: no test is named in: alone this_test' -- --check
entry caught_by='[]'
check no_test 1 'one: names no test' -- --check
entry caught_by='["meson no_such"]'
check no_such_meson_test 1 'ERROR +one .*meson has no test named no_such' -- --all
entry more='when = 1'
check unknown_key 2 'one: unknown: when' -- --check
entry more='where = "moon"'
check unknown_place 2 'one: where can be rxe alone' -- --check
echo '[one' | table
check no_table 2 'mutations.toml' -- --check
table <"$tree/good.toml"
check unknown_name 2 'no mutation is named no_such' -- no_such
check nothing_to_do 2 'say which' --
check two_things 2 'say which|not allowed' -- --all --check
check names_and_all 2 'say which' -- --all greatest
check no_times 2 'positive' -- --times 0 --all
check no_jobs 2 'positive' -- --jobs 0 --all
check seed_alone 2 '--seed goes with --random' -- --seed 1 --all
check help 0 'tests/mutations.toml' -- --help

# mutations that are drawn: least() has those that its test notices and others, and no test calls other()
if python3 -c 'import sys; sys.path.append("/usr/lib/python3/dist-packages"); import clang.cindex' 2>/dev/null; then
    mkdir -p "$tree/docs/reference"
    printf 'Before.\n\nScores of never: none.\n\n%s\n| --- |\n\nBehind.\n' \
        "$(sed -n 's/^HEAD = "\(.*\)"/\1/p' "$tree/scripts/mutate.d/fresh.py")" >"$tree/docs/reference/tests.md"
    cat >"$tree/tests/harmless.toml" <<'END'
[nobody_calls_it]
function = "least"
old = "12345"
new = "12346"
reason = "so it is said here"
END
    check fresh 0 '^seed s: [1-9][0-9]* mutations of 1 modules$' \
        'caught +src/least.c:14 least condition: .a < b. .*: alone ' 'caught +src/least.c:10 .*, which hangs ' \
        'survived +src/least.c:5 other .*: no test executes it' 'harmless .nobody_calls_it. +src/least.c:12 .* 2 tests' \
        '^2 tests; 14 mutations in one build$' '^\| `src` \| 14 \| 0 \| [0-3] \| 1 \| 7 \| [4-6] \| 0 \| [56]. % ' \
        -- --fresh 99 --seed s --results "$folder/results"
    check fresh_goes_on 0 '^\| all \|' -- --fresh 99 --seed s --results "$folder/results"
    check fresh_again 0 '^seed .*: [5-8] mutations of 1 modules$' -- --again "$folder/results"
    check score 0 '^Scores of 2[0-9-]*: N = [1-9][0-9]*, seed `s`.$' -- --score "$folder/results"
    { grep -q '^| `src` | [1-9]' "$tree/docs/reference/tests.md" && grep -q '^Behind' "$tree/docs/reference/tests.md"; } ||
        { echo 'FAILED: no score is written'; cat "$tree/docs/reference/tests.md"; bad=1; }
    check fresh_unfinished 0 'unfinished +src/least.c:14 .*: 0 tests in 1e-09 s; 2 others not run' \
        -- --fresh 99 --seed s --limit 0.000000001
    mkdir "$folder/work"
    exec {lock}>"$folder/work/lock"
    flock "$lock"
    check fresh_one_at_a_time 2 'another run is in .*/work' -- --fresh 9 --work "$folder/work"
    exec {lock}>&-
    cat >"$tree/src/order.c" <<'END'
int order(int *a);
int order(int *a)
{
    __atomic_store_n(a, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(a, __ATOMIC_SEQ_CST) + __atomic_fetch_or(a, 1, __ATOMIC_SEQ_CST);
}
END
    sed -i "s|'src/least.c'|'src/least.c', 'src/order.c'|" "$tree/meson.build"
    check fresh_orders 0 'mutations of 1 modules' " order: 'SEQ_CST' -> 'RELEASE'" " order: 'SEQ_CST' -> 'ACQUIRE'" \
        " order: 'SEQ_CST' -> 'ACQ_REL'" -- --fresh 99 --seed s --module src/order.c --module layers
    [ "$(grep -c ' order: ' "$folder/out")" = 3 ] || { echo 'FAILED: an order that is not weaker'; cat "$folder/out"; bad=1; }
    check fresh_elsewhere 0 '^seed s: 0 mutations' -- --fresh 9 --seed s --module layers
    check module_alone 2 'go with --fresh' -- --module src --all
    grep -q 'a < b$' "$tree/src/least.c" || { echo "FAILED: the tree itself was changed"; bad=1; }
else
    echo 'skipped: fresh: python3-clang is not installed'
fi

# interrupted during a test that hangs: it ends, and leaves no file and no process
"$tree/scripts/mutate" hangs >"$folder/out" 2>&1 &
pid=$!
until pgrep -P "$pid" -f alone >/dev/null || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
kill -INT $pid
rc=0
wait $pid || rc=$?
if [ $rc = 130 ] && [ -z "$(ls "$TMPDIR")" ] && grep -q interrupted "$folder/out" &&
    ! grep -lqs "TMPDIR=$TMPDIR/mutate" /proc/[0-9]*/environ; then
    echo 'ok: interrupted'
else
    echo "FAILED: interrupted, rc $rc"
    cat "$folder/out"
    bad=1
fi
exit $bad
