#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# utofu-test finds the errors of examples/ci-project, names their lines, and passes where there is none.
#
# usage: run_utofu_test_tests.sh GROUP    with UTOFU_TEST_TOOL, SUM (the program), SOURCE (of it) and LATE
set -u
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
ln -s "$SUM" "$work/sum" # a name by which its processes are known
SUM=$work/sum
export TMPDIR=$work
tool=$UTOFU_TEST_TOOL
unset "${!UTOFU_@}" GITHUB_ACTIONS
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out"
}

# ends STATUS [ARGUMENT]...: utofu-test ends with it
ends() {
    local status=$1 got
    shift
    "$tool" "$@" >"$work/out" 2>&1 </dev/null
    got=$?
    [ $got = "$status" ] || fail "utofu-test $*: status $got, not $status"
}

says() { # PATTERN
    grep -qE -- "$1" "$work/out" || fail "nothing matches '$1'"
}

# the line with a text in the source
line_of() { grep -nF -- "$1" "$SOURCE" | head -1 | cut -d: -f1; }

test_usage() {
    ends 0 --help
    says '^Usage: utofu-test'
    ends 0 --version
    says '^utofu-test \(utofu-verbs\) [0-9.]+$'
    for wrong in '' '--nothing /bin/true' '-n 0 /bin/true' '-n' '--seeds 5-3 /bin/true' '--seeds x /bin/true' '--level 5 /bin/true' \
        '--launcher pbs /bin/true' '--nodes 3 -n 2 /bin/true' '--stats /bin/true' './not-there' '--dump=yes /bin/true'; do
        # shellcheck disable=SC2086 # words
        ends 2 $wrong
        says 'see utofu-test --help'
    done
    # what is wrong, and what to do
    echo >"$work/text"
    while IFS='|' read -r wrong text; do
        # shellcheck disable=SC2086 # words
        ends 2 $wrong
        says "^utofu-test: $text; see utofu-test --help$"
    done <<END
--dump=1 $SUM|--dump takes no value, and has '1'
--seeds 1-99999999999 $SUM|--seeds takes a number .* of at most 10 as in 1-20, not '1-99999999999'
$work|$work cannot be run: it is a folder
$work/text|$work/text cannot be run: it is not executable \\(chmod \\+x\\)
text|text cannot be run: it is not executable \\(chmod \\+x\\), and not in PATH: ./text
--output $work/text/output $SUM|--output $work/text/output cannot be written: Not a directory
--junit $work/none/j.xml $SUM|--junit $work/none/j.xml: there is no folder $work/none
--markdown $work $SUM|--markdown $work: it is a folder
END
    [ -z "$(ls -d "$work"/utofu-test.* 2>/dev/null)" ] || fail 'a program was run, though an option is wrong'
}

# what a sanitizer has found, and the line of the program, not of the sanitizer: stacks of gcc 12's libasan and libtsan
test_sanitizer() {
    echo 'int main;' >"$work/own.c"
    cat >"$work/leaks" <<END
#!/bin/sh
echo '==7==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 100 byte(s) in 1 object(s) allocated from:
    #0 0x7ff1d44b89cf in __interceptor_malloc ../../../../src/libsanitizer/asan/asan_malloc_linux.cpp:69
    #1 0x556a9ed11541 in main $work/own.c:15
    #2 0x7ff1d40e9249 in __libc_start_call_main ../sysdeps/nptl/libc_start_call_main.h:58'
exit 1
END
    cat >"$work/races" <<END
#!/bin/sh
echo 'WARNING: ThreadSanitizer: data race (pid=7)
  Write of size 4 at 0x55d0 by main thread:
    #0 main $work/own.c:9 (races+0x12)'
exit 66
END
    chmod +x "$work/leaks" "$work/races"
    GITHUB_ACTIONS=true ends 1 --seeds 0 --no-check "$work/leaks"
    says "^1. LeakSanitizer: detected memory leaks \(exit status 1\) at $work/own.c:15 \(utofurun, as it is\)$"
    says "^::error file=$work/own.c,line=15::LeakSanitizer"
    ends 1 --seeds 0 --no-check "$work/races"
    says "^1. ThreadSanitizer: data race \(exit status 66\) at $work/own.c:9 "
}

# The last freedom before an abort is told; of a process that another signal ends there is none.
test_abort() {
    cat >"$work/aborts" <<'END'
#!/bin/sh
[ "${UTOFU_SHUFFLE-}" ] || exit 0
echo 'utofu: dump: [rank 0] begin, at SIGABRT
utofu: dump: [rank 0] shuffle met 7 us ago, 2 times: UTOFU_ERR_BUSY of a TOQ: poll the TCQ
utofu: dump: [rank 0] shuffle met 9 us ago, 1 times: something else
utofu: dump: [rank 0] end' >&2
kill -ABRT $$
END
    sed 's/begin, at SIGABRT/begin/' "$work/aborts" >"$work/ends"
    chmod +x "$work/aborts" "$work/ends"
    ends 1 -n 1 --seeds 3-3 --no-check "$work/aborts"
    says 'the last freedom of the shuffle mode before the abort: UTOFU_ERR_BUSY of a TOQ: poll the TCQ$'
    ends 1 -n 1 --seeds 3-3 --no-check "$work/ends"
    grep -q 'the last freedom' "$work/out" && fail 'a freedom before an end without SIGABRT'
}

test_findings() {
    ends 0 -n 3 --seeds 2 "$SUM"
    says '^utofurun, as it is: ok'
    says '^utofurun, seed 2, check: ok'
    says '^4 runs, 0 failed$'
    [ -z "$(ls -d "$work"/utofu-test.* 2>/dev/null)" ] || fail 'a folder is left where all has passed'

    ends 1 -n 3 --seeds 1-3 --failures 2 "$SUM" source
    says '^utofurun, check: FAILED: source-written'
    # the place is the put's, and the title says so
    says "^1. source-written: .* before the put was sent; line of the put: put_words\(\) at .*sum.c:$(line_of 'CALL(utofu_put(vcq')"\
'; line of the write: not known, but it runs after the call of the put \(2 runs, the first: utofurun, check\)$'
    says '   - instead: poll the TCQ until the entry'
    says '^   again:  UTOFU_CHECK=abort .*utofurun -n 3 .*sum source$'
    says '^3 runs, 2 failed, 2 not made any more$'
    bash -c "$(sed -n 's/^   again: *//p' "$work/out")" >"$work/again" 2>&1
    grep -q source-written "$work/again" || fail 'the command for another run does not show the finding'

    ends 0 -n 3 --seeds 0 --no-check "$SUM" source # wrong, but nothing looks
    says '^1 run, 0 failed$'
    # shellcheck disable=SC2016 # the shell of the program has it
    ends 1 --seeds 0 --no-check sh -c 'kill -SEGV $$'
    says '^1. killed by SIGSEGV'
    says 'it fails without any mode of the library'
    ends 1 --seeds 0 --no-check sh -c 'exit 77'
    says '^1. exit status 77'
    says '77 means to many test programs that something is missing'
    test_sanitizer
    ends 1 --seeds 1 --no-check true
    says '^1. no process called uTofu, so that nothing was tested'
}

test_shuffle() {
    ends 1 -n 4 --seeds 20 --failures 1 "$SUM" order
    # the end of the process that fails is sometimes an error of another one first, in 1 of 60 runs
    ! grep -q '^1. error-unread' "$work/out" || ends 1 -n 4 --seeds 21-40 --failures 1 "$SUM" order
    says '^utofurun, as it is: ok'
    says "^1. exit status 1 at sum.c:$(line_of '__LINE__') \(utofurun, seed [0-9]+, check\)$"
    says 'it passes as it is: it relies on more than the uTofu manual promises'
}

test_hang() {
    ends 1 -n 3 --seeds 0 --no-check --dump --timeout 3 "$SUM" hang
    says '^1. no end within 3 s'
    for rank in 0 1 2; do says "utofu: dump: \[rank $rank\] vcq "; done
    if command -v gdb >/dev/null && grep -q 'stack of process' "$work"/utofu-test.*/*.txt; then
        says '^1. no end within 3 s at .*examples/ci-project/sum.c:[0-9]+ '
        # every process is in the title: here rank 1, which sends nothing, waits where rank 2 does
        says '^1. .* \(rank 0\)' && says '^1. .* \(ranks? .*1' && says '^1. .* \(ranks? .*2'
        says '   \| utofu-test: #[0-9]+ (wait_round|main) at .*sum.c:[0-9]+$'
        says "   \| utofu-test: #[0-9]+ main at .*sum.c:($(line_of 'wait_round(&memory->sums_round, round);')|$(line_of 'add_parts(round);'))"
        grep -q 'start_thread' "$work/out" && fail 'threads of the library are shown'
    else
        echo 'not tried: stacks, as gdb is not there, or not permitted'
    fi
    [ -z "$(pgrep -f "^$SUM hang")" ] || fail 'processes are left'
    if command -v eu-stack >/dev/null; then # in gdb's place
        mkdir "$work/without" && printf '#!/bin/sh\nexit 1\n' >"$work/without/gdb" && chmod +x "$work/without/gdb"
        PATH=$work/without:$PATH GITHUB_ACTIONS=true ends 1 -n 3 --seeds 0 --no-check --dump --timeout 3 "$SUM" hang
        if grep -q 'stack of process' "$work"/out; then
            says '^::error file=.*sum.c,line=[0-9]+::no end within 3 s at \S+sum.c:[0-9]+ '
            says '   \| utofu-test: #[0-9]+ main at \S+sum.c:[0-9]+$'
        else
            echo 'not tried: stacks by eu-stack, which is not permitted'
        fi
    else
        echo 'not tried: stacks by eu-stack, which is not there'
    fi
    ends 1 -n 3 --seeds 0 --no-check --timeout 2 "$SUM" hang
    says 'run it again with --dump'
    grep -q 'utofu: dump' "$work/out" && fail 'a dump without --dump'

    # what launchers do not know of ends too; utofurun ends it itself
    for launcher in openmpi mpich; do
        command -v mpiexec.$launcher >/dev/null || continue
        ends 1 --launcher $launcher -n 1 --seeds 0 --no-check --timeout 3 sh -c "setsid sleep 300.25 & exec '$SUM' hang"
        [ -z "$(pgrep -f '^sleep 300.25')" ] || fail "processes of a process under $launcher are left"
    done

    # an interrupted utofu-test leaves nothing behind
    setsid "$tool" -n 3 --seeds 0 "$SUM" hang >"$work/out" 2>&1 </dev/null &
    local pid=$!
    until pgrep -f "^$SUM hang" >/dev/null; do sleep 0.1; done
    kill -TERM "$pid"
    wait "$pid"
    [ $? = 130 ] || fail 'the status of an interrupted utofu-test'
    for _ in {1..100}; do pgrep -f "^$SUM hang" >/dev/null || break; sleep 0.1; done
    [ -z "$(pgrep -f "^$SUM hang")" ] || fail 'an interrupted utofu-test leaves processes'
}

# The title has the rank that others wait for, and its line; theirs are below. The twin is test_hang: of processes that
# look at memory nobody knows for whom they wait, and the title has the line of each.
test_culprits() {
    local error what
    while IFS='|' read -r error what; do
        ends 1 -n 3 --seeds 0 --no-check --dump --timeout 3 "$LATE" "$error"
        says "^1. no end within 3 s; rank 1 $what"
        if command -v gdb >/dev/null && grep -q 'stack of process' "$work/out"; then
            [ "$error" = gone ] || says "^1. .* rank 1 $what at \S*late.c:[0-9]+ from \S*late.c:[0-9]+ \(utofurun, as it is\)$"
            says '^   - ranks 0, 2 wait at \S*late.c:[0-9]+ from \S*late.c:[0-9]+$'
        else
            echo 'not tried: lines, as gdb is not there, or not permitted'
        fi
    done <<END
never|has not called uTofu
silent|makes no call of uTofu
gone|has ended
END
    # a finding of two calls names both lines
    ends 1 -n 3 --seeds 0 --timeout 3 "$LATE" twice
    says '; line of the put[a-z -]*: (put_twice|main)\(\) at \S*late.c:[0-9]+; line of the other put[a-z -]*: (put_twice|main)\(\) at \S*late.c:[0-9]+ '
}

test_reports() {
    GITHUB_ACTIONS=true ends 1 -n 3 --seeds 1 --output "$work/kept" --stats --junit "$work/j.xml" --markdown "$work/m.md" "$SUM" source
    says "^::error file=.*sum.c,line=$(line_of 'CALL(utofu_put(vcq')::source-written"
    python3 - "$work" <<'END' >"$work/out" 2>&1 || fail 'reports'
import json
import sys
import xml.etree.ElementTree as tree
work = sys.argv[1]
suite = tree.parse(work + "/j.xml").getroot()[0]
assert suite.get("tests") == "3" and suite.get("failures") == "2", suite.attrib
names = [case.get("name") for case in suite]
assert names == ["utofurun, as it is", "utofurun, check", "utofurun, seed 1, check"], names
failed = [case[0] for case in suite if len(case)]
assert all(f.get("type") == "finding" and "sum.c:" in f.get("message") and "instead" in f.text for f in failed)
with open(work + "/m.md", encoding="utf-8") as f:
    text = f.read()
assert text.startswith("## Failed: `") and "| utofurun | 1 | 3 | 2 |" in text and "### 1. source-written" in text, text
with open(work + "/kept/utofurun.as-it-is.json", encoding="utf-8") as f:
    assert json.load(f), "no statistics"
END
    [ -s "$work/kept/utofurun.check.txt" ] || fail 'the output is not kept'
    ends 0 -n 2 --seeds 0 --junit "$work/j.xml" --markdown "$work/m.md" "$SUM"
    grep -q '^## Passed: ' "$work/m.md" || fail 'the summary of a run that passes'
    ends 0 -n 2 --seeds 0 --no-check --output "$work/new/one" --junit "$work/new/one/j.xml" "$SUM"
    [ -s "$work/new/one/j.xml" ] || fail 'no report in the folder of the output'
    ln -s /dev/full "$work/full.xml"
    ends 1 -n 2 --seeds 0 --no-check --junit "$work/full.xml" "$SUM"
    says '^utofu-test: .*No space left on device'
}

test_launchers() {
    local launcher
    for launcher in openmpi mpich; do
        "$tool" --launcher "$launcher" --seeds 0 -n 2 true >"$work/out" 2>&1
        grep -q 'is not installed' "$work/out" && { echo "not tried: $launcher"; continue; }
        ends 0 --launcher "$launcher" --nodes 1,2 --seeds 1 --no-check -n 4 "$SUM"
        says "^$launcher, 2 nodes, seed 1: ok"
        ends 1 --launcher "$launcher" --nodes 2 --seeds 0 -n 4 "$SUM" source
        says '^1. source-written.* at .*sum.c:'
    done
    ends 0 --nodes 1,2,4 --seeds 0 -n 4 "$SUM"
    says '^utofurun, 4 nodes, check: ok'
}

"test_$1"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
