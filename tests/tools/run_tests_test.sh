#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: run_tests_test.sh SOURCE
# scripts/run-tests runs the parts of its tier, continues after a part that fails, and lists at the end the failed, the
# omitted and the slowest tests: with programs in place of meson and the other scripts; FAIL names those that fail and
# SKIP those that omit a test.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/scripts" "$folder/tests" "$folder/bin"
cp "$1/scripts/run-tests" "$folder/scripts/"
cp "$1/tests/summary.py" "$folder/tests/"
printf '#!/bin/sh\n' >"$folder/scripts/install-deps"
cat >"$folder/log" <<'END'
# log FILE PART: a log as meson and rxe-vm write it
result=OK
case " $FAIL " in *" $2 "*) result=FAIL ;; esac
{
    printf '%s\n' '{"name": "x:quick+some / first of '"$2"'", "result": "OK", "duration": 1.5, "stdout": ""}'
    printf '%s\n' '{"name": "x:quick+some / second of '"$2"'", "result": "'$result'", "duration": 20, "stdout": "why\n"}'
    case " $SKIP " in
    *" $2 "*) printf '%s\n' '{"name": "third", "result": "SKIP", "duration": 0, "stdout": "skipped: no device\n"}' ;;
    *" part-of-$2 "*) printf '%s\n' '{"name": "third", "result": "OK", "duration": 0, "stdout": "a\nskipped: no user\n"}' ;;
    esac
} >"$1"
[ $result = OK ]
END
cat >"$folder/bin/meson" <<'END'
#!/bin/sh
case $1 in
setup | compile) exit ;;
esac
echo "meson $*" >>"$COMMANDS"
build=$3
while [ "$1" != --logbase ]; do shift; done
case " $FAIL " in *" no-log "*) exit 1 ;; esac
sh "$FOLDER/log" "$build/meson-logs/$2.json" host
END
printf '#!/bin/sh\n' >"$folder/bin/ninja"
cat >"$folder/scripts/rxe-vm" <<'END'
#!/bin/sh
echo "rxe-vm $*" >>"$COMMANDS"
case " $SKIP " in *" qemu "*) exit 77 ;; esac
while [ "$1" != --log ]; do shift; done
echo 1 >"build/meson-logs/$2.starts"
sh "$FOLDER/log" "build/meson-logs/$2.json" soft-roce
END
cat >"$folder/scripts/mutate" <<'END'
#!/bin/sh
echo "mutate $*" | tee -a "$COMMANDS"
case " $FAIL " in *" mutate "*) echo "SURVIVED a_mutation: survived"; echo "4 of 5 mutations caught"; exit 1 ;; esac
case " $SKIP " in *" mutate "*) echo "left out a_mutation: its test needs a device" ;; esac
echo "5 of 5 mutations caught"
END
cat >"$folder/scripts/lint" <<'END'
#!/bin/sh
echo lint >>"$COMMANDS"
case " $SKIP " in *" lint "*) echo 'lint: spelling: skipped: codespell is not installed' ;; esac
case " $FAIL " in *" lint "*) echo 'lint: failed: format'; exit 1 ;; esac
END
cat >"$folder/scripts/changed-tests" <<'END'
#!/bin/sh
case " $SKIP " in *" change "*) exit ;; esac
printf 'one test\nanother\n'
END
chmod +x "$folder"/scripts/* "$folder"/bin/*
export FOLDER="$folder" COMMANDS="$folder/commands"

bad=0
# check NAME RC OPTIONS PATTERN...: exit status, and patterns in summary or commands; "!PATTERN" is
# in neither
check() {
    name=$1 want=$2 options=$3 rc=0 good=yes
    shift 3
    rm -rf "$folder/build" && : >"$COMMANDS"
    # shellcheck disable=SC2086 # several
    (cd "$folder" && PATH=$folder/bin:$PATH && scripts/run-tests $options >"$folder/out" 2>&1) || rc=$?
    { sed -n '/^== Summary/,$p' "$folder/out"; cat "$COMMANDS"; } >"$folder/said"
    [ "$rc" = "$want" ] || good=''
    for pattern; do
        case $pattern in
        !*) ! grep -q "${pattern#!}" "$folder/said" || good='' ;;
        *) grep -q "$pattern" "$folder/said" || good='' ;;
        esac
    done
    if [ -n "$good" ]; then echo "ok: $name"; else echo "FAILED: $name, rc $rc"; cat "$folder/out" "$COMMANDS"; bad=1; fi
}

FAIL='' SKIP='' && export FAIL SKIP
check quick 0 '' '^meson .*--suite quick$' '^rxe-vm tests .*--tier quick$' '^host: 2 tests, 2 OK ' '^soft-roce: 2 tests' \
    '^  *20.0 s .*second of host' '!^      why$' '^Seconds of tests by suite: some 43' \
    '^Starts of the virtual machines (soft-roce): 1' \
    '^== quick: all tests passed$' '^4 passed, 0 failed$' '!^lint' '!^mutate'
check full 0 --full '^meson .*--suite quick --suite full$' '^rxe-vm tests .*--tier full$' '^lint' \
    '^mutate --random 5 --seed [0-9a-z]*$' '^== full: all tests passed$'
check nightly 0 --nightly '^meson .*--suite quick --suite full --suite nightly$' '^rxe-vm tests .*--tier nightly$' \
    '^rxe-vm tests .*--tier full --kernel backports$' '^mutate --all --rxe$' \
    '^mutate --fresh 100 --seed [0-9a-z]* --results build/meson-logs/fresh.json$' '^== nightly: all tests passed$'
check by_change 0 '--since HEAD~1' '^meson .* one test another$' '!rxe-vm' \
    '^== the tests that the change touches: all tests passed$'
FAIL=host
check soft_roce_runs_behind_a_failure 1 '' '^host: 2 tests, 1 FAIL, 1 OK' 'FAIL: .*second of host' '^      why$' \
    '^soft-roce: 2 tests, 2 OK' \
    '^== quick: some tests failed$' '^3 passed, 1 failed$'
FAIL=soft-roce
check soft_roce_fails 1 '' '^host: 2 tests, 2 OK' 'FAIL: .*second of soft-roce' '^== quick: some tests failed$'
FAIL=no-log
check meson_itself_fails 1 '' 'host: no test ran' '^soft-roce: 2 tests' '^== quick: some tests failed$'
FAIL=mutate
check a_mutation_survives 1 --full '^mutations: 4 of 5' '^  SURVIVED a_mutation' '^== full: some tests failed$'
FAIL=lint
check sources_are_not_as_they_should_be 1 --full '^  scripts/lint: format$' '^== full: some tests failed$'
check lint_is_left_out 1 '--full --no-lint --no-rxe --mutations 0' '!^lint' '!^mutate' '!^rxe' '  left out: lint: --no-lint' \
    '^== full: not passed; 3 left out, which is no pass$'
check not_with_a_sanitizer 0 '--full --sanitize thread' '!^lint' '!^rxe' '!^mutate' '^== full: all tests passed$'
FAIL='' SKIP=host
check quick_may_leave_out 0 '' '^  left out: third: no device$' '^== quick: all tests passed; 1 left out$'
check full_may_not 1 --full '^  left out: third: no device$' '^== full: not passed; 1 left out, which is no pass$'
SKIP=part-of-host
check part_of_a_test_counts_too 1 --full '^  left out: third: no user$' '^== full: not passed; 1 left out'
SKIP=qemu
check without_qemu 1 --full '^  left out: soft-roce: QEMU is not installed' '^== full: not passed'
SKIP=lint
check without_a_tool 1 --full '^  left out: scripts/lint spelling: codespell' '^== full: not passed'
SKIP=mutate
check a_mutation_is_left_out 1 --full '^  left out: left out a_mutation' '^== full: not passed'
SKIP=change
check nothing_has_changed 0 '--since HEAD' '!^meson'
SKIP=''
check both_sanitizers 0 '--sanitize all' # two summaries, each with its build folder
grep -q '^== All tests passed with both' "$folder/out" || { echo 'FAILED: both_sanitizers'; bad=1; }
FAIL=host
check both_sanitizers_fail 1 '--sanitize all'
grep -q '^== Some tests failed with: address,undefined thread' "$folder/out" || { echo 'FAILED: both_fail'; bad=1; }
FAIL=''
check bad_option 2 --stress
check bad_number 2 '--mutations soon'
check tier_and_change 2 '--full --since HEAD'
exit $bad
