#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Wrong options of acp_init(): a line with the error, the list of options, and status 1.
#
# usage: options.sh UTOFURUN PROGRAM PROGRAM is acp_basic.
utofurun=$1 program=$2
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# refused TEXT ARGUMENT...: the program, alone, says it
refused() {
    text=$1
    shift
    "$program" 1 "$@" >"$work/out" 2>&1
    status=$?
    if [ $status != 1 ] || ! grep -qF -- "$text" "$work/out"; then
        failures=$((failures + 1))
        echo "FAIL: $*: status $status, and not: $text"
        cat "$work/out"
    fi
}

accepted() {
    if ! "$@" >"$work/out" 2>&1; then
        failures=$((failures + 1))
        echo "FAIL: $*"
        cat "$work/out"
    fi
}

refused 'there is no option --acp-nonsense' --acp-nonsense 1
refused '--acp-malloc-hook-low N  bytes, for the data library' --acp-nonsense 1
refused '--acp-size-smem: its value is missing' --acp-size-smem
refused '--acp-size-smem many: a number from 0 to' --acp-size-smem many
refused '--acp-size-smem -1: a number from 0 to' --acp-size-smem -1
refused '--acp-malloc-hook-small 2: a number from 0 to 1 is wanted' --acp-malloc-hook-small 2
refused '--acp-port-local 65536: a number from 0 to 65535 is wanted' --acp-port-local 65536
for name in size-smem size-smem-cl size-smem-dl malloc-hook-small malloc-hook-large malloc-hook-huge malloc-hook-low \
    malloc-hook-high myrank nprocs ethernet-speed taskid offsetrank port-local port-remote; do
    refused "--acp-$name 1x: a number from" --acp-$name 1x
    refused "--acp-$name 18446744073709551616: a number from" --acp-$name 18446744073709551616
done
for name in portfile host-remote; do
    refused "--acp-$name: its value is missing" --acp-$name
    refused "--acp-$name: a text of less than 8192 bytes is wanted" --acp-$name "$(head -c 8192 /dev/zero | tr '\0' x)"
done
refused '--acp-size-smem 1099511627777: a number from 0 to 1099511627776 is wanted' --acp-size-smem 1099511627777
refused 'no memory for 1099511640064 bytes of starter memory' --acp-size-smem-cl 1099511627776 --acp-size-smem-dl 0
refused '--acp-nprocs 2, but the launcher has started 1' --acp-nprocs 2
refused 'the ranks of the processes are not 0 to N - 1' --acp-myrank 1
accepted "$program" 1 --acp-size-smem 20000 --acp-size-smem-cl 0 --acp-size-smem-dl 65536 \
    --acp-malloc-hook-small 1 --acp-malloc-hook-large 1 --acp-malloc-hook-huge 1 \
    --acp-malloc-hook-low 1 --acp-malloc-hook-high 2 --acp-ethernet-speed 1000 --acp-taskid 5 \
    --acp-portfile /nowhere --acp-offsetrank 0 --acp-myrank 0 --acp-nprocs 1 --acp-port-local 1 \
    --acp-host-remote nobody --acp-port-remote 2
# the ranks may be others than the launcher's, where they are a permutation
# shellcheck disable=SC2016
accepted "$utofurun" -n 3 sh -c '"$0" 3 --acp-nprocs 3 --acp-myrank $((2 - UTOFU_RANK))' "$program"
# shellcheck disable=SC2016
"$utofurun" -n 2 sh -c '"$0" 2 --acp-size-smem $((12000 + UTOFU_RANK))' "$program" >"$work/out" 2>&1 &&
    failures=$((failures + 1))
grep -q 'starter memory of different sizes' "$work/out" || { echo FAIL: sizes; cat "$work/out"; failures=1; }
# both wrong: a rank twice, and then a size
# shellcheck disable=SC2016
"$utofurun" -n 3 sh -c '"$0" 3 --acp-myrank 0 --acp-size-smem $((12000 + UTOFU_RANK / 2)); echo "status $?"' "$program" >"$work/out" 2>&1
[ "$(grep -c '^status 1$' "$work/out")" = 3 ] &&
    [ "$(grep -c 'the ranks of the processes are not 0 to N - 1' "$work/out")" = 3 ] ||
    { echo FAIL: ranks and sizes; cat "$work/out"; failures=1; }
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
