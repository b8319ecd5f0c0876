#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_stranger_tests.sh GROUP: attempts of other users of the machine against a program, which fail.
# PROBE and ONE_VCQ name the programs. Some checks take a second user: as root alone.

: "${PROBE:?names job_probe}" "${ONE_VCQ:?names one_vcq}"
folder=$(mktemp -d)
failures=0
checks=0
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}"
export UTOFU_PROVIDER=shm
stranger=54322 victim=54323

# shellcheck source=tests/harness/checks.sh
. "$(dirname "$0")/../harness/checks.sh"

expect() { # NAME command...: it succeeds
    local name=$1
    shift
    checks=$((checks + 1))
    "$@" || fail "$name"
}

as_user() { # UID command...
    setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}

has_second_user() {
    [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && as_user $stranger true 2>/dev/null
}

as_rank() { # RANK SIZE ROOT command...
    UTOFU_RANK=$1 UTOFU_SIZE=$2 UTOFU_ROOT=$3 "${@:4}"
}
export -f as_rank as_user
ranked=(bash -c 'as_rank "$@"' as_rank)

group_setuid() {
    has_second_user || { echo 'skipped: needs root, for a second user'; exit 77; }
    local at="$folder/bin" own="$folder/own" ignored='ignoring variables UTOFU_\* and those of launchers'
    chmod 755 "$folder"
    install -d "$at"
    install -o $victim -m 4755 "$(command -v id)" "$at/id"
    [ "$(as_user $stranger "$at/id" -u 2>/dev/null)" = $victim ] ||
        { echo 'skipped: set-uid programs have no effect here'; exit 77; }
    install -d -o $victim -m 700 "$own"
    install -o $victim -m 4755 "$ONE_VCQ" "$at/setuid"
    install -o $victim -g $victim -m 2755 "$ONE_VCQ" "$at/setgid"
    install -m 755 "$ONE_VCQ" "$at/plain"
    check runs_at_all 0 '^rank 0 of 1$' 1 env -u UTOFU_PROVIDER \
        setpriv --reuid $stranger --clear-groups "$at/setuid"
    expect silent_without_variables test "$(wc -l <"$folder/out")" = 1
    # the victim's file is not overwritten for the user who starts its set-uid program
    echo precious >"$own/t.0.json"
    chown $victim "$own/t.0.json"
    check ignored "0" "$ignored" 1 env UTOFU_TRACE="$own/t.json" setpriv --reuid $stranger --clear-groups "$at/setuid"
    expect no_trace test "$(cat "$own/t.0.json")" = precious
    check no_job 0 '^rank 0 of 1$' 1 env UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_ROOT="$own" \
        setpriv --reuid $stranger --clear-groups "$at/setuid"
    check no_launcher 0 '^rank 0 of 1$' 1 env PMI_PORT=127.0.0.1:9 PMI_ID=1 UTOFU_JOB_TIMEOUT=1 \
        setpriv --reuid $stranger --clear-groups "$at/setgid"
    check nothing_of_it_is_read 0 "$ignored" 1 env UTOFU_LOG_LEVEL=wrong UTOFU_NO_SUCH=1 UTOFU_JOB_KEY=wrong \
        setpriv --reuid $stranger --clear-groups "$at/setuid"
    # the bad twin: a plain program of the victim reads all of them
    check obeyed 0 "$ignored" 0 env UTOFU_TRACE="$own/t.json" setpriv --reuid $victim --clear-groups "$at/plain"
    expect trace test "$(head -c 1 "$own/t.0.json")" = '['
    check complains 1 "UTOFU_LOG_LEVEL: 'wrong' is not allowed" 1 env UTOFU_LOG_LEVEL=wrong \
        setpriv --reuid $victim --clear-groups "$at/plain"
}

group_trace() {
    local at="$folder/trace"
    mkdir "$at"
    export UTOFU_TRACE=$at/t.json
    check made 0 '^rank 0 of 1$' 1 "$ONE_VCQ"
    check made_again 0 '^rank 0 of 1$' 1 "$ONE_VCQ"
    expect is_one test "$(head -c 1 "$at/t.0.json")" = '['
    chmod 666 "$at/t.0.json" # as with umask 0
    check made_with_umask_0 0 '^rank 0 of 1$' 1 "$ONE_VCQ"
    echo precious >"$at/elsewhere"
    ln -sf elsewhere "$at/t.0.json"
    check symbolic_link 1 'cannot write .*/t\.0\.json: is a symbolic link' 1 "$ONE_VCQ"
    expect not_followed test "$(cat "$at/elsewhere")" = precious
    rm "$at/t.0.json"
    mkfifo "$at/t.0.json"
    check fifo 1 't\.0\.json: is a FIFO' 1 "$ONE_VCQ"
    check fifo_with_a_reader 1 't\.0\.json: is a FIFO' 1 bash -c '
        exec 3<>"$1"; "$2"' bash "$at/t.0.json" "$ONE_VCQ"
    rm "$at/t.0.json"
    has_second_user || return 0
    install -o $stranger -m 666 /dev/null "$at/t.0.json"
    check file_of_another_user 1 "t\.0\.json: belongs to user $stranger, not to user 0" 1 "$ONE_VCQ"
}

group_folder() {
    local at="$folder/job" record
    mkdir "$at"
    check alone 1 '^utofu: (error|warning)' 0 "${ranked[@]}" 0 2 "$at" "$PROBE" --wait 200
    mkfifo "$at/utofu.1"
    check fifo 1 'utofu\.1 is a FIFO, and is not used; remove it, or give the job a folder' 1+ \
        "${ranked[@]}" 0 2 "$at" "$PROBE" --wait 2000
    check own_is_a_fifo 4 'utofu\.1 is a FIFO, and is not used' 1 \
        "${ranked[@]}" 1 2 "$at" "$PROBE" --wait 2000
    rm "$at/utofu.1"
    ln -s /etc/passwd "$at/utofu.1"
    check symbolic_link 1 'cannot read utofu\.1: it is a symbolic link' 1+ \
        "${ranked[@]}" 0 2 "$at" "$PROBE" --wait 2000
    check own_is_a_link 4 'utofu\.1 is a symbolic link; remove it' 1 \
        "${ranked[@]}" 1 2 "$at" "$PROBE" --wait 2000
    rm "$at/utofu.1"
    chmod 777 "$at"
    check open_to_all 1 'every user may write to this folder \(mode 0777\)' 1 \
        "${ranked[@]}" 0 2 "$at" "$PROBE" --wait 200
    chmod 1777 "$at"
    check sticky 1 'every user may write' 0 "${ranked[@]}" 0 2 "$at" "$PROBE" --wait 200
    has_second_user || return 0
    # a valid record, of a living process, but of another user; readable by all, or not
    as_rank 1 2 "$at" "$PROBE" --wait 8000 >/dev/null 2>&1 &
    record=$!
    while ! [ -s "$at/utofu.1" ]; do sleep 0.05; done
    cp "$at/utofu.1" "$at/copy"
    kill -9 $record
    wait $record 2>/dev/null
    mv "$at/copy" "$at/utofu.1"
    chown $stranger "$at/utofu.1"
    exec 3<"$at/utofu.1"
    flock -x 3
    check of_another_user 1 "utofu\.1 belongs to user $stranger, not to user 0, and is not used" 1+ \
        "${ranked[@]}" 0 2 "$at" "$PROBE" --wait 2000
    chmod 600 "$at/utofu.1"
    chmod 755 "$folder"
    install -m 755 "$PROBE" "$folder/probe"
    check not_readable 1 "cannot read utofu\\.1: it belongs to uid $stranger, and this process runs as uid $victim" 1+ \
        "${ranked[@]}" 0 2 "$at" setpriv --reuid $victim --clear-groups "$folder/probe" --wait 2000
    # the bad twin: the same record of the same user is believed
    chown 0 "$at/utofu.1"
    chmod 666 "$at/utofu.1"
    check written_by_everybody 1 'utofu\.1 may be written by everybody \(mode 0666\)' 1+ \
        "${ranked[@]}" 0 2 "$at" "$PROBE" --wait 2000
    chmod 600 "$at/utofu.1"
    check of_this_user 0 ': ok$' 1 "${ranked[@]}" 0 2 "$at" "$PROBE" --wait 2000
}

run_group "$1"
