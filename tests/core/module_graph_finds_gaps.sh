#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The bad twin of scripts/module-graph: fabricated objects and tables with one fault each do not pass.
#
# usage: module_graph_finds_gaps.sh PYTHON SCRIPT CC...
set -u
python=$1 script=$2
shift 2
root=$(cd "$(dirname "$script")/.." && pwd)
declare -A sources
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
failed=0

# program NAME SOURCE DEFINES [USES]: an object in the build folder, in a program of that name, as if the source defined
# the one and used the other
program() {
    {
        [ $# -lt 4 ] || echo "void $4(void); void (*uses)(void) = $4;"
        echo "int $3;"
    } >"$tmp/source.c"
    mkdir -p "$tmp/build/$1.p"
    "${cc[@]}" -Duses="$3_uses" -c "$tmp/source.c" -o "$tmp/build/$1.p/${2//\//_}.o" || exit 2
    sources["$1.p/${2//\//_}.o"]=$2
}

# file SOURCE DEFINES [USES]: SOURCE.c of the library
file() {
    program library "$1.c" "${@:2}"
}

# object MODULE_FILE DEFINES [USES]: the same of src/MODULE/FILE.c
object() {
    file "src/${1/_//}" "${@:2}"
}

# table LINE...: of modules and what they may use
table() {
    printf '| module | may use | what it is for |\n| --- | --- | --- |\n' >"$tmp/table.md"
    printf '| %s | words |\n' "$@" >>"$tmp/table.md"
}

# start: two modules and an arrow, as the table allows
start() {
    rm -rf "$tmp/build"
    sources=()
    object high_a high_function low_function
    object low_b low_function
    table '`src/high/` | low' '`src/low/` | '
}

run() {
    local output entries=
    for output in "${!sources[@]}"; do
        entries+="${entries:+,}{\"directory\": \"$tmp/build\", \"file\": \"$root/${sources[$output]}\", \"output\": \"$output\"}"
    done
    echo "[$entries]" >"$tmp/build/compile_commands.json"
    run_again
}

run_again() {
    "$python" "$script" --no-includes --table "$tmp/table.md" --build "$tmp/build" >"$tmp/out" 2>&1
}

# gap WHAT TEXT: what was made since start fails with TEXT
gap() {
    if run; then
        echo "FAIL: $1: was not noticed"
        failed=1
    elif ! grep -q -- "$2" "$tmp/out"; then
        echo "FAIL: $1: not reported as \"$2\" but as:"
        cat "$tmp/out"
        failed=1
    fi
}

cc=("$@")
start
run || { echo "FAIL: good objects and a good table do not pass:"; cat "$tmp/out"; failed=1; }

start
object low_c low_other high_function
gap 'an arrow upwards' 'low may not use high, and does: high_function'

start
object low_c low_other high_function
table '`src/high/` | low' '`src/low/` | high'
gap 'a table with a cycle' 'the table allows a cycle: high low'
gap 'a cycle' 'a cycle: high low'

start
table '`src/high/` | ' '`src/low/` | '
gap 'an arrow that the table lacks' 'high may not use low, and does: low_function'

start
table '`src/high/` | low'
gap 'a module that the table lacks' 'the table has no line for low'

# files of one module that use each other, without a table of files
for module in src/low provider/shm layers/lapi tools/run bench/prdma; do
    start
    table '`src/high/` | low' '`src/low/` | ' "\`$module/\` | "
    file "$module/top" top_function bottom_function
    file "$module/bottom" bottom_function
    run || { echo "FAIL: files of $module without a cycle do not pass:"; cat "$tmp/out"; failed=1; }
    file "$module/bottom" bottom_function top_function
    gap "a cycle of files in $module" "a cycle of files: $module/bottom $module/top"
done

# of_files LINE...: a table of files, too
of_files() {
    printf '\n| file | may use | what it is for |\n| --- | --- | --- |\n' >>"$tmp/table.md"
    printf '| %s | words |\n' "$@" >>"$tmp/table.md"
}

start
object low_c low_other low_function
of_files '`src/low/c` | b' '`src/low/b` | '
run || { echo "FAIL: a good table of files does not pass:"; cat "$tmp/out"; failed=1; }

start
object low_c low_other low_function
object low_b low_function low_other
of_files '`src/low/c` | b' '`src/low/b` | '
gap 'an arrow between files that the table lacks' 'src/low/b may not use src/low/c, and does: low_other'
gap 'a cycle of files in a table' 'a cycle: src/low/b src/low/c'

start
object low_c low_other
of_files '`src/low/b` | '
gap 'a file that the table lacks' 'the table has no line for src/low/c'

start
of_files '`src/low/b` | c' '`src/low/c` | b'
gap 'a table of files with a cycle' 'the table allows a cycle: src/low/b src/low/c'

# in_folders FILE DEFINES USES...: of the folders of provider/verbs
in_folders() {
    while [ $# -gt 0 ]; do
        file "provider/verbs/$1" "$2" "$3"
        shift 3
    done
}

start
in_folders connect/cm cm qp data/qp qp order
table '`src/high/` | low' '`src/low/` | ' '`provider/verbs/` | '
of_files '`provider/verbs/connect/cm` | qp' '`provider/verbs/data/qp` | '
run || { echo "FAIL: good folders do not pass:"; cat "$tmp/out"; failed=1; }
in_folders connect/active ask nothing data/post post ask
of_files '`provider/verbs/connect/active` | ' '`provider/verbs/data/post` | active'
gap 'folders that use each other' 'a cycle of folders: provider/verbs/connect provider/verbs/data'

# a layer: it may use the public interface and its own files as its tables say
layer() {
    start
    object low_d utofu_put
    object low_e ut_hidden
    file layers/acp/top ll_top "$2"
    file layers/acp/bottom ll_bottom "$3"
    table '`src/high/` | low' '`src/low/` | ' '`layers/acp/` | include' '`include/` | '
    of_files '`layers/acp/top` | bottom' '`layers/acp/bottom` | '
}

layer '' ll_bottom utofu_put
run || { echo "FAIL: a good layer does not pass:"; cat "$tmp/out"; failed=1; }

layer '' ll_bottom ll_top
gap 'an arrow upwards in a layer' 'layers/acp/bottom may not use layers/acp/top, and does: ll_top'
gap 'a cycle in a layer' 'a cycle: layers/acp/bottom layers/acp/top'

layer '' ll_bottom ut_hidden
gap 'a layer that uses what is not public' 'layers/acp may not use low, and does: ut_hidden'

layer '' ll_bottom utofu_put
of_files '`elsewhere/top` | '
gap 'a file that is in no known folder' 'elsewhere/top in the table of files is in none of the folders'

# the same name in two programs
start
rm -rf "$tmp/build"
sources=()
program one tools/one.c one_main both
program one tools/run/both.c both
program two tools/two.c two_main both
program two tools/trace/both.c both
table '`tools/one` | tools/run' '`tools/two` | tools/trace' '`tools/run/` | ' '`tools/trace/` | '
run || { echo "FAIL: a good build folder does not pass:"; cat "$tmp/out"; failed=1; }
table '`tools/one` | ' '`tools/two` | tools/trace' '`tools/run/` | ' '`tools/trace/` | '
gap 'an arrow of one program' 'tools/one may not use tools/run, and does: both'

# an object of an earlier text of its source says nothing; src/util/lock.c is there
start
rm -rf "$tmp/build"
sources=()
program library src/high/up.c up
program library src/util/lock.c old_lock up
table '`src/high/` | ' '`src/util/` | '
gap 'an arrow of a new object' 'util may not use high, and does: up'
touch -d 2001-01-01 "$tmp/build/library.p/src_util_lock.c.o"
run || { echo "FAIL: an object older than its source does not pass:"; cat "$tmp/out"; failed=1; }
rm "$tmp/build/compile_commands.json"
if run_again || ! grep -q 'is not there: --build names a build folder' "$tmp/out"; then
    echo "FAIL: a folder that is no build folder is taken for one"
    failed=1
fi

start
printf 'no table\n' >"$tmp/table.md"
gap 'a document without the table' 'has no table with the columns'

start
sources=()
file other/other x
gap 'objects of nothing that is known' 'has no object of a module'

exit $failed
