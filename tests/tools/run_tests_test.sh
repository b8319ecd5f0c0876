#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: run_tests_test.sh RUN-TESTS
# scripts/run-tests goes on behind a part that fails, and says at the end what failed: with a meson
# that runs nothing, and fails in the suites that FAIL names.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/scripts" "$folder/bin" "$folder/build/meson-logs"
cp "$1" "$folder/scripts/run-tests"
printf '#!/bin/sh\n' >"$folder/scripts/install-deps"
cat >"$folder/bin/meson" <<'END'
#!/bin/sh
[ "$1" = test ] || exit 0
part=host build=$3
case " $* " in *" --suite rxe"*) part=soft-roce ;; esac
while [ "$1" != --logbase ]; do shift; done
mkdir -p "$build/meson-logs"
log=$build/meson-logs/$2
result=OK rc=0
case " $FAIL " in *" no-log "*) rm -f "$log.json"; exit 1 ;; esac
case " $FAIL " in *" $part "*) result=FAIL rc=1 ;; esac
{
    printf '%s\n' '{"name": "first of '$part'", "result": "OK", "stdout": "a\nskipped: no device\n"}'
    printf '%s\n' '{"name": "second of '$part'", "result": "'$result'", "stdout": ""}'
    printf '%s\n' '{"name": "third of '$part'", "result": "SKIP", "stdout": "skipped: no device\n"}'
    if [ "$part" = soft-roce ] && [ "${UT_TESTS_UNTIL:-9999999999}" -le "$(date +%s)" ]; then
        printf '%s\n' '{"name": "fourth", "result": "SKIP", "stdout": "skipped: late: see run-tests --minutes\n"}'
    fi
} >"$log.json"
exit $rc
END
cat >"$folder/scripts/mutate" <<'END'
#!/bin/sh
echo "mutate $*"
case " $FAIL " in *" mutate "*) exit 1 ;; esac
END
cat >"$folder/scripts/lint" <<'END'
#!/bin/sh
echo 'lint: spelling: skipped: codespell is not installed'
case " $FAIL " in *" lint "*) echo 'lint: failed: format'; exit 1 ;; esac
END
chmod +x "$folder/scripts/install-deps" "$folder/scripts/lint" "$folder/scripts/mutate" "$folder/bin/meson"

bad=0 options=''
check() { # NAME RC PATTERN... of what has to be there, in this order, in the summary
    name=$1 want=$2
    shift 2
    rc=0
    # shellcheck disable=SC2086 # several
    (PATH=$folder/bin:$PATH && "$folder/scripts/run-tests" $options >"$folder/out" 2>&1) || rc=$?
    sed -n '/^== Summary/,$p' "$folder/out" >"$folder/summary"
    good=yes
    [ "$rc" = "$want" ] || good=''
    for line in "$@"; do
        grep -q "^$line" "$folder/summary" || good=''
    done
    [ "$(grep -c '^  FAIL: ' "$folder/summary")" = "$(echo "$FAIL" | grep -ow 'host\|soft-roce' | wc -l)" ] || good=''
    if [ -n "$good" ]; then echo "ok: $name"; else echo "FAILED: $name, rc $rc"; cat "$folder/out"; bad=1; fi
}

FAIL='' && export FAIL
check nothing_fails 0 'host: 3 tests, 2 OK, 1 SKIP' 'soft-roce: 3 tests, 2 OK, 1 SKIP' \
    '  left out: no device (2 times)' '== All tests passed'
FAIL=host
check soft_roce_runs_behind_a_failure 1 'host: 3 tests, 1 FAIL' '  FAIL: second of host' \
    'soft-roce: 3 tests, 2 OK' '== Some tests failed'
FAIL=soft-roce
check soft_roce_fails 1 'host: 3 tests, 2 OK' '  FAIL: second of soft-roce' '== Some tests failed'
FAIL='host soft-roce'
check both_fail 1 '  FAIL: second of host' '  FAIL: second of soft-roce' '== Some tests failed'
FAIL=no-log
check meson_itself_fails 1 'host: no test ran' 'soft-roce: no test ran' '== Some tests failed'

mutated() { # NAME PATTERN: what is said of mutations
    if grep -q "$2" "$folder/out"; then echo "ok: $1"; else echo "FAILED: $1"; cat "$folder/out"; bad=1; fi
}
FAIL=mutate
check a_mutation_survives 1 'host: 3 tests, 2 OK' '== Some tests failed'
mutated five_by_default '^mutate --random 5 --seed [0-9a-z]* --minutes 3$'
options='--mutations 0'
check no_mutation 0 '== All tests passed'
options='--mutations 3'
check as_many_as_wanted 1 '== Some tests failed'
mutated three '^mutate --random 3 '
FAIL=lint
options='--mutations 0'
check sources_are_not_as_they_should_be 1 'left out: scripts/lint spelling: codespell' \
    'scripts/lint failed: format' 'host: 3 tests, 2 OK' '== Some tests failed'
options='--mutations 0 --no-lint'
check lint_is_left_out 0 '== All tests passed'
FAIL='lint mutate'
options='--sanitize thread'
check not_with_a_sanitizer 0 '== All tests passed'
options='--sanitize all'
check both_sanitizers 0 'host: 3 tests, 2 OK, 1 SKIP (build-address/' '== All tests passed' \
    'host: 3 tests, 2 OK, 1 SKIP (build-thread/' '== All tests passed with both'
FAIL=no-log
check both_sanitizers_fail 1 '== Some tests failed with: address,undefined thread'

# Time that runs out: a build that takes longer than the minutes there are, by a clock of its own
cat >"$folder/bin/date" <<'END'
#!/bin/sh
n=$(cat "$CLOCK" 2>/dev/null || echo 0)
echo $((n + 65 * 60)) >"$CLOCK"
echo "$n"
END
chmod +x "$folder/bin/date"
CLOCK=$folder/clock && export CLOCK
FAIL=''
options='--minutes 131'
rm -f "$CLOCK"
check there_is_time 0 'soft-roce: 3 tests' '== All tests passed'
mutated time_for_mutations '^mutate --random 5'
options='' # 65
rm -f "$CLOCK"
check time_runs_out 0 'soft-roce: 4 tests, 2 OK, 2 SKIP' '  left out: fourth: late: see run-tests --minutes' \
    '  left out: mutations: ' '== All tests passed'
options='--minutes 0'
rm -f "$CLOCK"
check no_limit 0 'soft-roce: 3 tests' '== All tests passed'
options='--all-rxe'
rm -f "$CLOCK"
check no_limit_for_all 0 'soft-roce: 3 tests' '== All tests passed'
options='--stress'
rm -f "$CLOCK"
check no_limit_for_stress 0 'soft-roce: 3 tests' '== All tests passed'
rm "$folder/bin/date"
options='--minutes soon'
rc=0
# shellcheck disable=SC2086 # two words
"$folder/scripts/run-tests" $options >"$folder/out" 2>&1 || rc=$?
if [ $rc = 2 ] && grep -q -e '--minutes soon: not a whole number' "$folder/out"; then echo "ok: bad_minutes"
else echo "FAILED: bad_minutes, rc $rc"; cat "$folder/out"; bad=1; fi

# a test for the virtual machine asks for the time
guests=$(dirname "$1")/../tests/rxe
for script in in-guest across-hosts both-providers host-dies perf-between-hosts; do
    rc=0
    UT_TESTS_UNTIL=1 "$guests/$script" "$folder/build" verbs 1 nothing >"$folder/out" 2>&1 || rc=$?
    if [ $rc = 77 ] && grep -q '^skipped: its time had run out' "$folder/out"; then echo "ok: late_$script"
    else echo "FAILED: late_$script, rc $rc"; cat "$folder/out"; bad=1; fi
done
exit $bad
