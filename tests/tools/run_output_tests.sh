#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_output_tests.sh GROUP: tools whose output cannot be written, because the disk is full or
# standard output is closed, report it and fail; tools that read files name those that they cannot
# read; and tools that write a file never leave a part of it. INFO, UTOFURUN, PERF, TRACE and
# EXAMPLES name the programs.

# under nohup SIGHUP is ignored, and the tools would inherit that
[ -n "${OUTPUT_SIGNALS:-}" ] || OUTPUT_SIGNALS=default exec env --default-signal=HUP,TERM "$0" "$@"

: "${INFO:?names utofu-info}" "${UTOFURUN:?names utofurun}" "${PERF:?names utofu-perf}"
: "${TRACE:?names utofu-trace}" "${EXAMPLES:?names the folder of the examples}"
folder=$(mktemp -d)
failures=0
checks=0
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}" # an outer job's variables must not count

# shellcheck source=tests/harness/checks.sh
. "$(dirname "$0")/../harness/checks.sh"

to_full() { "$@" >/dev/full; }
to_closed() { "$@" >&-; }
# The first file that the tool opens would become its standard output.
to_closed_with_input() { "$@" >&- <&-; }
export -f to_full to_closed to_closed_with_input

# lost NAME PATTERN command...: fails with one line that matches, and leaves no file behind
lost() {
    local name=$1 pattern=$2
    shift 2
    [ ! -e /dev/full ] || check "${name}_full" 1 "$pattern: No space left on device" 1 \
        bash -c 'to_full "$@"' - "$@"
    check "${name}_closed" 1 "$pattern: Bad file descriptor" 1 bash -c 'to_closed "$@"' - "$@"
    check "${name}_all_closed" 1 "$pattern: Bad file descriptor" 1 \
        bash -c 'to_closed_with_input "$@"' - "$@"
    check "${name}_open" 0 "$pattern" 0 "$@"
}

group_lost() {
    local text='cannot write to standard output'
    lost info "^utofu-info: $text" "$INFO"
    lost environment "^utofu-info: $text" "$INFO" -e
    lost info_check "^utofu-info: $text" "$INFO" --check
    lost explain "^utofu-info: $text" "$INFO" --explain all
    lost info_help "^utofu-info: $text" "$INFO" --help
    lost report '^utofu-info: -' "$INFO" -r-
    lost perf "^utofu-perf: \[rank 0\] $text" "$UTOFURUN" -n 2 "$PERF" -q -n 10 -s 8 put-lat
    lost perf_json "^utofu-perf: \[rank 0\] $text" "$UTOFURUN" -n 2 "$PERF" -q --json -n 10 -s 8 \
        put-lat
    lost perf_help "^utofu-perf: $text" "$PERF" --help
    lost perf_version "^utofu-perf: $text" "$PERF" --version
    lost run_help "^utofurun: $text" "$UTOFURUN" --help
    lost run_tagged '^utofurun: cannot write the output of the job' "$UTOFURUN" -n 2 --tag-output \
        echo hi
    lost trace_help "^utofu-trace: $text" "$TRACE" --help
    UTOFU_TRACE=$folder/t.json "$UTOFURUN" -n 2 "$EXAMPLES/pingpong_notice" >"$folder/out" 2>&1 ||
        fail a_job_with_a_timeline
    lost trace "^utofu-trace: $text" "$TRACE" "$folder"/t.?.json
    lost trace_check "^utofu-trace: $text" "$TRACE" --check "$folder"/t.?.json
}

group_unreadable() {
    mkdir "$folder/dir"
    : >"$folder/empty"
    check trace_folder 1 "^utofu-trace: cannot read $folder/dir: Is a directory$" 1 \
        "$TRACE" "$folder/dir"
    check trace_missing 1 "^utofu-trace: cannot read $folder/no: No such file or directory$" 1 \
        "$TRACE" "$folder/no"
    check trace_empty 1 "^utofu-trace: $folder/empty is no timeline of UTOFU_TRACE" 1 \
        "$TRACE" "$folder/empty"
    cd "$folder" || exit 1
    check plot_folder 2 '^utofu-perf: cannot read dir: Is a directory; try' 1 \
        "$PERF" --plot x.png dir
    check plot_missing 2 '^utofu-perf: cannot read no: No such file or directory; try' 1 \
        "$PERF" --plot x.png no
    check plot_empty 2 '^utofu-perf: empty has no results of utofu-perf --json: line 1: ' 1 \
        "$PERF" --plot x.png empty
    [ ! -e x.png ] || fail "no picture is left behind"
}

# ended NAME FILE command...: SIGTERM and SIGHUP each end the command, once folder/started has the
# number of a process, and no file is left whose name begins with FILE
ended() {
    local name=$1 file=$2 started=$folder/started sig got pid
    shift 2
    for sig in TERM HUP; do
        checks=$((checks + 1))
        "$@" >"$folder/out" 2>&1 </dev/null &
        pid=$!
        until [ -s "$started" ]; do
            kill -0 $pid 2>/dev/null || break
            sleep 0.01
        done
        compgen -G "$file*" >/dev/null || fail "$name: it has begun no file"
        kill -$sig $pid
        wait $pid
        got=$?
        [ $got -gt 128 ] || fail "$name: status $got behind SIG$sig"
        compgen -G "$file*" >/dev/null && fail "$name: a file stays behind SIG$sig"
        kill "$(cat "$started")" # the process that the tool had started, or waited for
        rm -f "$started"
    done
}

# Makes a program of that name that reports its start, and runs for ever.
endless() {
    mkdir -p "$folder/bin"
    printf '#!/bin/sh\necho $$ >%s/started\nexec sleep 1000\n' "$folder" >"$folder/bin/$1"
    chmod +x "$folder/bin/$1"
}

group_interrupted() {
    mkfifo "$folder/never"
    # shellcheck disable=SC2016 # the other shell's
    ended trace "$folder/merged" bash -c '
        ( exec 3>"$1/never"; echo $BASHPID >"$1/started"; exec sleep 1000 ) & # waits for the reader
        exec "$2" -o "$1/merged" "$1/never"' - "$folder" "$TRACE"
    endless gnuplot
    echo '{"tool": "utofu-perf", "results": [{"operation": "put-lat", "bytes": 8, "min_us": 1,
        "p50_us": 1, "p95_us": 1, "mb_per_s": 1}]}' >"$folder/results"
    ended plot "$folder/picture.png" env PATH="$folder/bin:$PATH" "$PERF" \
        --plot "$folder/picture.png" "$folder/results"
    endless lscpu
    ended report "$folder/report" env PATH="$folder/bin:$PATH" "$INFO" \
        --report="$folder/report"
    # an existing file stays
    echo old >"$folder/merged"
    "$TRACE" -o "$folder/merged" "$folder/never" &
    exec 3>"$folder/never" # waits until the tool reads
    kill -TERM $!
    wait $!
    exec 3>&-
    check kept 0 '^old$' 1 cat "$folder/merged"
}

run_group "$1"
