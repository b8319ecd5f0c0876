#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: rxe_tests_test.sh RXE-VM
# scripts/rxe-vm tests reports the result of each test, and runs the remaining tests, also if the virtual machine fails:
# with a process of this host in its place (RXE_VM), in which the real tests/rxe/guest.py runs.
set -eu
rxe_vm=$1
python3 -c 'import tomllib' 2>/dev/null || { echo 'skipped: python3 has no tomllib (3.11)'; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/bin" "$folder/build/meson-info" "$folder/build/meson-logs"
cat >"$folder/build/meson-info/intro-tests.json" <<END
[{"name": "by_meson", "cmd": ["$folder/build/yes"], "env": {"SAYS": "of Meson"}, "workdir": null,
  "suite": ["x:quick", "x:some"]},
 {"name": "long", "cmd": ["$folder/build/no"], "env": {}, "workdir": null, "suite": ["x:nightly", "x:some"]}]
END
program() { printf '#!/bin/sh\n%s\n' "$2" >"$folder/build/$1"; chmod +x "$folder/build/$1"; }
program yes 'echo "it is well ${SAYS:-} ${MORE:-}"'
program no 'echo "it is not"; exit 3'
program skips 'echo "skipped: no reason"'
program hangs 'sleep 1000 & sleep 1000'
# shellcheck disable=SC2016 # for the programs
program crash 'kill -9 $(cat "$VM_PID")'
# shellcheck disable=SC2016
program freeze 'kill -STOP $PPID; sleep 1000'
# a command of the guest, which reports a healthy device
cat >"$folder/bin/rdma" <<'END'
#!/bin/sh
echo 'link rxe0/1 state ACTIVE'
END
# the machine: its command is a child that ends with it
cat >"$folder/vm" <<'END'
#!/bin/bash
[ "$BOOTS" != no ] || { echo 'rxe-vm: guest 0 failed' >&2; exit 125; }
[ "$BOOTS" != late ] || exec sleep 1000
echo x >>"$VM_STARTS"
while [ "$1" != -- ]; do shift; done
shift
RXE_SHARED=$(mktemp -d)
export RXE_UPTIME=0 RXE_HOST=0 RXE_HOSTS=1 RXE_NETDEV=veth0 RXE_SHARED VM_PID=$RXE_SHARED/pid
trap 'kill -9 $child; rm -rf "$RXE_SHARED"; exit 143' TERM
setsid "$@" &
child=$!
echo $child >"$VM_PID"
wait $child
rc=$?
rm -rf "$RXE_SHARED"
[ $rc -le 128 ] || rc=125
exit $rc
END
chmod +x "$folder/bin/rdma" "$folder/vm"
export PATH=$folder/bin:$PATH RXE_VM=$folder/vm VM_STARTS=$folder/starts BOOTS=yes

bad=0
list() { cat >"$folder/list.toml"; }
check() { # NAME RC STARTS PATTERN... -- OPTION...
    local name=$1 want=$2 starts=$3 patterns=() rc=0 good=yes pattern
    shift 3
    while [ "$1" != -- ]; do patterns+=("$1"); shift; done
    shift
    : >"$VM_STARTS"
    "$rxe_vm" tests --build "$folder/build" --from "$folder/list.toml" --grace-seconds 1 --boot-seconds 10 "$@" \
        >"$folder/out" 2>&1 </dev/null || rc=$?
    [ "$rc" = "$want" ] && [ "$(wc -l <"$VM_STARTS")" = "$starts" ] || good=''
    for pattern in "${patterns[@]}"; do grep -Eq -- "$pattern" "$folder/out" || good=''; done
    if [ -n "$good" ]; then echo "ok: $name"; else echo "FAILED: $name, rc $rc"; cat "$folder/out" "$VM_STARTS"; bad=1; fi
}

list <<'END'
[environment]
MORE = "of the list"
[first]
tier = "quick"
run = ["yes"]
[second]
tier = "full"
run = ["no", "yes"]
[third]
tier = "full"
suites = ["some"]
env = { MORE = "of the test" }
[fourth]
tier = "nightly"
run = ["skips"]
END
check quick 0 1 '^ok +1/1 first' '^1 tests, 0 failed, 1 starts' -- --tier quick
check a_failure_does_not_stop_the_others 1 1 '^ok +1/3 first' '^not ok +2/3 second .*FAIL: no: exit status 3' \
    '#.*it is not' '#.*it is well' '^ok +3/3 third' -- --tier full
grep -q '"it is well of Meson of the test' "$folder/build/meson-logs/testlog-soft-roce.json" ||
    grep -q 'it is well of Meson of the test' "$folder/build/meson-logs/testlog-soft-roce.txt" ||
    { echo 'FAILED: the log has no output'; bad=1; }
check skipped_is_no_pass 1 1 'fourth .*FAIL: skips: was skipped' -- fourth
check one_by_name 0 1 '^ok +1/1 first' -- first
check a_command 0 1 '^ok +1/1 run' -- --run 'yes now' --env MORE=x
check nothing_to_run_starts_nothing 2 0 'no test is named nothing' -- nothing
list <<'END'
[hangs]
tier = "quick"
minutes = 0.02
run = ["hangs"]
[after]
tier = "quick"
run = ["yes"]
minutes = 0.01
END
check a_test_hangs 1 1 'hangs .*FAIL: hangs: its time had run out' '^ok .* after ' -- --tier quick
list <<'END'
[crash]
tier = "quick"
run = ["crash"]
[after]
tier = "quick"
run = ["yes"]
minutes = 1
END
check the_guest_crashes 1 2 'crash .*ERROR: the guest crashed' '; 1 tests remain' '^ok .* after ' \
    '2 starts' -- --tier quick
list <<'END'
[freeze]
tier = "quick"
run = ["freeze"]
minutes = 0.02
[after]
tier = "quick"
run = ["yes"]
minutes = 0.01
END
check the_guest_hangs 1 2 'freeze .*ERROR: the guest hangs' '^ok .* after ' -- --tier quick
list <<'END'
[first]
tier = "quick"
run = ["yes"]
[second]
tier = "quick"
run = ["yes"]
END
BOOTS=no
check the_guest_does_not_start 1 0 'first .*ERROR: the guest did not start$' 'second .*ERROR: the guest did not start$' \
    '#.*guest 0 failed' -- --tier quick
BOOTS=late
check the_guest_does_not_start_in_time 1 0 'first .*ERROR: the guest did not start within 1 s' -- --tier quick --boot-seconds 1
BOOTS=yes
printf '[first]\ntier = "never"\n' | list
check no_such_tier 2 0 'first: its tier is none of' -- --tier quick
printf '[first]\ntier = "quick"\nrun = ["gone"]\n' | list
check no_such_program 2 0 'gone is not there' -- --check --tier quick
printf '[first]\ntier = "quick"\nrun = ["yes {build}/gone"]\n' | list
check no_such_argument 2 0 'gone is not there' -- --check --tier quick
printf '[first]\ntier = "quick"\nwhen = 1\n' | list
check no_such_key 2 0 'first: unknown: when' -- --tier quick
exit $bad
