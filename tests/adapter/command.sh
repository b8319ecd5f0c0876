#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# with-adapter as a command: options, exit statuses, and what is left behind. Usage: command.sh PROGRAM
set -u
with=$1
failures=0 checks=0 folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# shellcheck source=tests/harness/checks.sh
. "$(dirname "$0")/../harness/checks.sh"

group_command() {
    check help 0 '^  adaptive-routing ' 1 "$with" --help
    check no_command 125 '^Usage: with-adapter ' 1 "$with"
    check unknown_profile 125 'with-adapter: --profile quick: see with-adapter --help' 1 "$with" --profile quick -- true
    check unknown_fault 125 'with-adapter: --fault rain=1: see' 1 "$with" --fault rain=1 -- true
    check fault_without_number 125 'with-adapter: --fault port=: see' 1 "$with" --fault port= -- true
    check fault_with_rubbish 125 'with-adapter: --fault port=1x: see' 1 "$with" --fault port=1x -- true
    check seed_with_rubbish 125 'with-adapter: --seed x: see' 1 "$with" --seed x -- true
    check unknown_option 125 'with-adapter: --colour red: see' 1 "$with" --colour red
    check status_of_the_command 7 '.' 0 "$with" -- sh -c 'exit 7'
    # shellcheck disable=SC2016 # its own
    check killed_command 137 '.' 0 "$with" -- sh -c 'kill -9 $$'
    check missing_command 127 'with-adapter: /no/such/program: No such file' 1 "$with" -- /no/such/program
    check options_of_the_command_are_its_own 0 '^--seed 3$' 1 "$with" --seed 2 -- echo --seed 3
    # shellcheck disable=SC2016 # its own
    check socket_is_named 0 'utofu-adapter-' 1 "$with" -- sh -c 'echo $UT_ADAPTER_SOCKET'
    check nothing_is_left 0 '.' 0 sh -c '! grep utofu-adapter-'"$("$with" -- sh -c 'echo ${UT_ADAPTER_SOCKET#utofu-adapter-}')"' /proc/net/unix'

    # the command ends when the adapter ends
    "$with" -- sh -c 'echo $$ >'"$folder"'/pid; exec sleep 300' &
    pid=$!
    while [ ! -s "$folder/pid" ]; do sleep 0.05; done
    kill -9 "$pid"
    wait "$pid" 2>/dev/null
    for _ in $(seq 200); do
        kill -0 "$(cat "$folder/pid")" 2>/dev/null || break
        sleep 0.05
    done
    check command_ends_with_the_adapter 1 '.' 0 sh -c "kill -0 $(cat "$folder/pid") 2>/dev/null"
}

run_group command
