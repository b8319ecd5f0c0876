#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_info_tests.sh GROUP: utofu-info with good and bad options, alone and in jobs. INFO and
# UTOFURUN name the programs, PYTHON the interpreter that reads JSON, HAS_JSON is 1 if --json is
# built in. Group "guest" needs the virtual machine of scripts/rxe-vm, whose devices it takes down.

: "${INFO:?names utofu-info}" "${UTOFURUN:?names utofurun}" "${PYTHON:?names python3}"
folder=$(mktemp -d)
failures=0
checks=0
trap 'rm -rf "$folder"' EXIT
unset "${!UTOFU_@}" # an outer job's variables must not count
key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

# shellcheck source=tests/harness/checks.sh
. "$(dirname "$0")/../harness/checks.sh"

# json NAME STATUS EXPRESSION command...: the output is one JSON value per line; the expression is
# true of `d`, the first, and `lines`, the list of them
json() {
    local name=$1 want=$2 expression=$3 got
    shift 3
    checks=$((checks + 1))
    timeout 120 "$@" >"$folder/out" 2>"$folder/err" </dev/null
    got=$?
    [ "$got" = "$want" ] || fail "$name: status $got, not $want"
    "$PYTHON" -c '
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
d = lines[0]
sys.exit(0 if eval("(" + sys.argv[2] + ")") else 1)' "$folder/out" "$expression" ||
        fail "$name: not so: $expression"
}

# verdict NAME EXPRESSION: the named check's entry c; for json()
verdict() {
    printf 'any(%s for c in d["checks"] if c["name"] == "%s")' "$2" "$1"
}

# Runs a command without the capability that lifts the limit of locked memory. Needs root.
unprivileged() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$@"
    else
        "$@"
    fi
}
export -f unprivileged

has_rdma() { [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; }

group_options() {
    check help 0 '^Usage: utofu-info' 1 "$INFO" --help
    check version 0 '^utofu-info .*[0-9]' 1 "$INFO" --version
    check unknown_long 2 '^utofu-info: there is no option --bogus; try' 1 "$INFO" --bogus
    check unknown_short 2 '^utofu-info: there is no option -x; try' 1 "$INFO" -x
    check value_for_none 2 '^utofu-info: --check takes no value; try' 1 "$INFO" --check=yes
    check operand 2 "^utofu-info: .* there is 'rxe0'; try" 1 "$INFO" rxe0
    check exclusive 2 '^utofu-info: .*do not go together; try' 1 "$INFO" -e --check
    for bad in --bogus -x --check=yes rxe0; do
        "$INFO" $bad >"$folder/out" 2>&1
        [ "$(wc -l <"$folder/out")" = 1 ] || fail "one line for $bad"
    done
    check full_disk 1 'No space left' 1 bash -c '"$INFO" >/dev/full'
}

group_report() {
    local script
    script=$(realpath "${0%/*}/../../tools/info/report.sh")
    cd "$folder" || exit 1
    check report 0 '^utofu-info: wrote utofu-report\..*\.txt$' 1 env UTOFU_JOB_KEY="$key" UCX_TLS=tcp \
        UCX_SECRET_KEY=hush "$INFO" --report
    check sections 0 '^==== (utofu-info( --check| --environment)?|limits|RDMA devices|kernel messages) ====$' 6 \
        cat utofu-report.*.txt
    check facts 0 '^(Shared|vm/max_map_count:[0-9]+|UCX_TLS=tcp|utofu-info --report of utofu-verbs .*)$' 3 \
        cat utofu-report.*.txt
    check variables 0 '^ *UTOFU_VERBS_DEVICES' 1 cat utofu-report.*.txt
    check no_key 0 "$key|hush" 0 cat utofu-report.*.txt
    check to_stdout 0 '^==== limits ====$' 1 "$INFO" -r-
    check bash_reads_it_too 0 '^==== kernel messages ====$' 1 bash -c 'bash -s <"$0"' "$script"
    check one_per_node 0 '^utofu-info: wrote' 2 "$UTOFURUN" -n 4 --nodes 2 "$INFO" --report=r.txt
    check whole 0 '^==== (limits|kernel messages) ====$' 2 cat r.txt
    check nothing_left 0 '^r.txt' 1 ls
    check wrong_folder 1 '^utofu-info: no/r.txt: No such file' 1 "$INFO" --report=no/r.txt
    check full 1 '^utofu-info: /dev/full: No space left' 1 "$INFO" --report=/dev/full
    check with_another 2 'goes together with no other option' 1 "$INFO" --report --check
    check empty 2 'wants a file, or -' 1 "$INFO" --report=
}

group_explain() {
    local table=${0%/*}/../../src/util/code_table.h
    local codes
    codes=$(grep -c '^X(' "$table")
    local findings=${0%/*}/../../src/check/findings.h
    findings=$(grep -c '^X(' "$findings")
    check number 0 '^UTOFU_ERR_MRQ_PEER \(-193\)$' 1 "$INFO" --explain -193
    check meaning 0 'The remote process cannot be reached' 1 "$INFO" --explain -193
    check remedy 0 '^ +-> Look whether the process' 1 "$INFO" --explain -193
    check several 0 '^UTOFU_(SUCCESS|ERR_BUSY|ERR_TCQ_STADD|ERR_FATAL|ERR_FULL) \(' 5 \
        "$INFO" --explain 0 -4 UTOFU_ERR_TCQ_STADD fatal err_full
    check positive 0 '^UTOFU_ERR_INVALID_VCQ_HDL \(-521\)$' 1 "$INFO" --explain=521
    check all 0 '^UTOFU_[A-Z_]+ \(-?[0-9]+\)$' "$codes" "$INFO" --explain all
    check width 0 '^.{81}' 0 "$INFO" --explain all
    check findings 0 '^source-written$' 1 "$INFO" --check-list
    check findings_instead 0 '^ +instead: .*\(manual [0-9., ]+\)$' "$findings" \
        "$INFO" --check-list
    check findings_alone 2 '^utofu-info: --check-list goes together' 1 "$INFO" --check-list --json
    check no_number 2 "^utofu-info: there is no return code '-77'.*--explain all" 1 \
        "$INFO" --explain -193 -77
    check huge_number 2 "there is no return code '-4294967297'" 1 "$INFO" --explain -4294967297
    check no_name 2 "^utofu-info: there is no return code 'PEER'" 1 "$INFO" --explain PEER
    check empty 2 "^utofu-info: there is no return code ''" 1 "$INFO" --explain ''
    check missing 2 '^utofu-info: --explain wants a return code' 1 "$INFO" --explain
    check exclusive 2 '^utofu-info: --explain does not go together' 1 "$INFO" -c --explain -1
    check no_job 0 '^UTOFU_ERR_FATAL' 1 env UTOFU_RANK=x "$INFO" --explain -768
    [ "$HAS_JSON" = 1 ] || return
    json as_json 0 'd["codes"][0]["name"] == "UTOFU_ERR_FULL" and d["codes"][0]["number"] == -6 and
        d["codes"][0]["remedy"]' "$INFO" --json --explain -6
}

group_facts() {
    check alone 0 'rank 0 of 1' 1 "$INFO"
    check provider_default 0 'UTOFU_PROVIDER is auto, the default' 1 "$INFO"
    check provider_asked 0 'UTOFU_PROVIDER=shm' 1 env UTOFU_PROVIDER=shm "$INFO"
    check atomics 0 'UTOFU_ARMW=auto; devices reach only some|UTOFU_ARMW=auto; ' 1 \
        env UTOFU_ARMW=auto UTOFU_PROVIDER=shm "$INFO"
    check capabilities 0 'max_putget_size +16777215|max_double_reduction +3' 2 "$INFO"
    check job_first_speaks 0 'rank [01] of 2' 1 "$UTOFURUN" -n 2 "$INFO"
    check job_all_speak 0 'rank [01] of 2' 2 "$UTOFURUN" -n 2 "$INFO" --all
    check job_nodes 0 '(0 of 2, coordinates 0,0,0,0,0,0|1 of 2, coordinates 0,0,0,1,0,0) ' 2 \
        "$UTOFURUN" -n 2 --nodes 2 "$INFO" --all
    check job_cqs 0 'of each TNI: (0, 1, 2, 3|4, 5, 6, 7)$' 2 "$UTOFURUN" -n 2 "$INFO" -a
    check last_cqs 0 'of each TNI: 4092, 4093, 4094$' 1 "$UTOFURUN" -n 1 \
        env UTOFU_LOCAL_RANK=1364 UTOFU_LOCAL_SIZE=1366 "$INFO" -a
    check no_more_cqs 1 'utofu: .*local rank 1365 is too many for 3 CQs each \(CQ ids end at 4095\)' 1 "$UTOFURUN" -n 1 \
        env UTOFU_LOCAL_RANK=1365 UTOFU_LOCAL_SIZE=1366 "$INFO" -a
    check bad_value 1 "UTOFU_ARMW: 'x' is not allowed" 1 env UTOFU_ARMW=x "$INFO"
}

group_environment() {
    local header=${0%/*}/../../src/util/env_table.h
    local names
    names=$(grep -c '^X(' "$header")
    check every_variable 0 '^UTOFU_[A-Z_]+=([^.]|\.[^.]|$)' $((names - 1)) "$INFO" -e
    names=$(($(grep -c '^OPTION(' "$header") - $(sed -n '/^X(TEST,/,$p' "$header" | grep -c '^OPTION(')))
    check every_option 0 '^UTOFU_[A-Z_]+=\.\.\.,[a-z_]+=' "$names" "$INFO" -e
    check none_for_tests 0 'UTOFU_TEST|map_refuse' 0 env UTOFU_TEST=map_refuse=2 "$INFO" -e
    check set_option 0 '^UTOFU_SHUFFLE=\.\.\.,level=2   \(set\)$' 1 env UTOFU_SHUFFLE=0,level=2 "$INFO" -e
    check bad_option 1 '^UTOFU_SHUFFLE=\.\.\.,level=9   \(not allowed\)$' 1 env UTOFU_SHUFFLE=level=9 "$INFO" -e
    check no_such_option 1 "^FAIL +environment: UTOFU_SHUFFLE: option 'depth' is not allowed|-> it takes level" 2 \
        env UTOFU_PROVIDER=shm UTOFU_SHUFFLE=0,depth=9 "$INFO" --check
    check default_value 0 '^UTOFU_PEER_TIMEOUT=30$' 1 "$INFO" -e
    check set_value 0 '^UTOFU_PEER_TIMEOUT=7   \(set\)$' 1 env UTOFU_PEER_TIMEOUT=7 "$INFO" -e
    check rounded_value 0 '^UTOFU_NUM_MRQ_ENTRIES=8192   \(set\)$' 1 \
        env UTOFU_NUM_MRQ_ENTRIES=9000 "$INFO" -e
    check bad_value 1 '^UTOFU_ARMW=x   \(not allowed\)$' 1 env UTOFU_ARMW=x "$INFO" -e
    # a key is never shown, valid or not, as text or JSON
    check key_is_set 0 '^UTOFU_JOB_KEY=\(not shown\)   \(set\)$' 1 env UTOFU_JOB_KEY=$key "$INFO" -e
    check key_is_not_shown 0 "$key" 0 env UTOFU_JOB_KEY=$key "$INFO" -e
    check bad_key 1 '^UTOFU_JOB_KEY=\(not shown\)   \(not allowed\)$' 1 env UTOFU_JOB_KEY=secret "$INFO" -e
    check bad_key_is_not_shown 1 'secret' 0 env UTOFU_JOB_KEY=secret "$INFO" -e
    check bad_key_is_not_shown_by_check 1 'secret' 0 env UTOFU_JOB_KEY=secret "$INFO" --check
    [ "$HAS_JSON" != 1 ] || check key_is_not_in_json 0 "$key" 0 env UTOFU_JOB_KEY=$key "$INFO" -e --json
}

# --check finds everything that the library warns of when it starts, in whichever process it runs.
group_warnings() {
    local rank
    for rank in 0 1; do
        check "srun_without_pmi_$rank" 1 '^FAIL +job: srun started 2 tasks without PMIx or PMI' 1 \
            env UTOFU_PROVIDER=shm SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=$rank "$INFO" --check
    done
    check srun_remedy 1 '^ +-> use srun --mpi=pmix or --mpi=pmi2, or set UTOFU_ROOT' 1 \
        env UTOFU_PROVIDER=shm SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "$INFO" --check
    check srun_of_one_task 0 '^nothing would keep' 1 \
        env UTOFU_PROVIDER=shm SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 "$INFO" --check
    check srun_with_a_root 0 '^ok +job: rank 0 of 1' 1 "$UTOFURUN" -n 1 \
        env UTOFU_PROVIDER=shm SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 "$INFO" --check
    check statistics_file 0 '^note +warning: the file of UTOFU_STATS has no effect' 1 \
        env UTOFU_PROVIDER=shm UTOFU_STATS=1,file="$folder/s" "$INFO" --check
    mkdir -m 0777 "$folder/open"
    chmod 0777 "$folder/open"
    check open_folder 0 'note +warning: UTOFU_ROOT=' 1 bash -c "export UTOFU_PROVIDER=shm UTOFU_SIZE=2 \\
        UTOFU_ROOT='$folder/open' UTOFU_LOCAL_SIZE=2; UTOFU_RANK=1 UTOFU_LOCAL_RANK=1 '$INFO' --check & \\
        UTOFU_RANK=0 UTOFU_LOCAL_RANK=0 '$INFO' --check; wait"
    check once 0 'UTOFU_LOGLEVEL' 1 \
        env UTOFU_PROVIDER=shm UTOFU_LOGLEVEL=info "$INFO" --check
    # sanitizers replace mlock()
    [ "$SANITIZER" != none ] ||
        check locked_pages 0 '^note +warning: UTOFU_SWAP_PROTECT: cannot lock' 1 \
        bash -c 'ulimit -l 64; UTOFU_PROVIDER=shm UTOFU_SWAP_PROTECT=1 unprivileged "$INFO" --check'
}

group_check() {
    check shm 0 '^nothing would keep a job from running here$' 1 \
        env UTOFU_PROVIDER=shm "$INFO" --check
    check shm_tried 0 '^ok +communication: ' 1 env UTOFU_PROVIDER=shm "$INFO" -c
    check in_job 0 '^\[0 .*\] nothing would keep' 1 \
        "$UTOFURUN" -n 2 env UTOFU_PROVIDER=shm "$INFO" --check
    check in_job_all 0 '^\[[01] .*\] nothing would keep' 2 \
        "$UTOFURUN" -n 2 env UTOFU_PROVIDER=shm "$INFO" --check --all
    check in_job_one_node_each 0 '^\[[01] .*\] nothing would keep' 2 \
        "$UTOFURUN" -n 2 --nodes 2 env UTOFU_PROVIDER=shm "$INFO" --check
    check bad_value 1 "^FAIL +environment: UTOFU_ARMW: 'x' is not allowed" 1 \
        env UTOFU_PROVIDER=shm UTOFU_ARMW=x "$INFO" --check
    check misspelt 0 '^note +environment: UTOFU_PROVDER is set|did you mean UTOFU_PROVIDER' 2 \
        env UTOFU_PROVIDER=shm UTOFU_PROVDER=shm "$INFO" --check
    check programs_own 0 'UTOFU_PROBE_DIR' 0 \
        env UTOFU_PROVIDER=shm UTOFU_PROBE_DIR=/x "$INFO" --check --all
    check no_job 1 'FAIL +peers: rank 0: .*no process serves this job' 1 \
        env UTOFU_PROVIDER=shm UTOFU_JOB_TIMEOUT=1 UTOFU_RANK=1 UTOFU_SIZE=2 \
        UTOFU_ROOT=127.0.0.1:9 UTOFU_JOB_KEY=$key "$INFO" --check
    check no_cma 0 '^note +cross-memory attach: switched off' 1 \
        env UTOFU_PROVIDER=shm UTOFU_SHM_CMA=0 "$INFO" --check
    check no_map 0 '^note +mapped memory: switched off by UTOFU_SHM_MAP=0' 1 \
        env UTOFU_PROVIDER=shm UTOFU_SHM_MAP=0 "$INFO" --check
    check no_map_cost 0 ' 0\.05,' 1 env UTOFU_PROVIDER=shm UTOFU_SHM_MAP=0 "$INFO" --check
    check few_descriptors 1 '^FAIL +descriptors: a process may open 20 files' 1 \
        env UTOFU_PROVIDER=shm bash -c 'ulimit -n 20; exec "$INFO" --check'
    check few_descriptors_remedy 1 'ulimit -n [0-9]+$' 1 \
        env UTOFU_PROVIDER=shm bash -c 'ulimit -S -n 20; exec "$INFO" --check'
    check crowd 0 '^\[0 .*\] note +processors: ' 1 \
        "$UTOFURUN" -n $(($(nproc) + 1)) env UTOFU_PROVIDER=shm "$INFO" --check
    check one_fails 1 '^FAIL +environment: UTOFU_ARMW' 1 \
        "$UTOFURUN" -n 2 bash -c '[ $UTOFU_RANK = 1 ] && export UTOFU_ARMW=x; exec "$INFO" -c'
    if has_rdma; then
        echo 'not tried: this machine has RDMA devices'
    else
        check no_device_alone 0 '^note +RDMA device: there is none: jobs run on this host' 1 "$INFO" --check
        check no_device_fabric 0 '^ +several hosts they use libfabric$' \
            "$("$INFO" --check | grep -c '^ok +libfabric: .* would be used' -E)" "$INFO" --check
        check no_device_no_fabric 0 '^ +over several hosts needs one on each$' 1 \
            env UTOFU_OFI_PROVIDER=none "$INFO" --check
        check no_device_alone_says 0 '^nothing would keep' 1 "$INFO" --check
        check no_device_by_name 1 '^FAIL +RDMA device: there is none' 1 \
            env UTOFU_VERBS_DEVICES=mlx5_0 "$INFO" --check
        check no_device_hosts 1 'FAIL +RDMA device: there is none, and this job needs' 1 \
            env UTOFU_OFI_PROVIDER=none UTOFU_RANK=0 UTOFU_SIZE=2 UTOFU_JOB_KEY=$key UTOFU_JOB_TIMEOUT=1 \
            UTOFU_ROOT="$(hostname):$((20000 + RANDOM % 12000))" "$INFO" --check
        check no_device_verbs 1 'FAIL +RDMA device: there is none' 1 \
            env UTOFU_PROVIDER=verbs "$INFO" --check
        check no_device_one_host 0 '^\[0 .*\] note +RDMA device: there is none' 1 \
            "$UTOFURUN" -n 2 "$INFO" --check
        check small_memlock 0 '64 KiB allowed; none is needed without an RDMA device' 1 \
            bash -c 'ulimit -l 64; UTOFU_PROVIDER=shm unprivileged "$INFO" --check |
                tr "\n" " " | tr -s " "'
        check small_memlock_swap_protect 0 '64 KiB: UTOFU_SWAP_PROTECT' 1 bash -c 'ulimit -l 64
            UTOFU_PROVIDER=shm UTOFU_SWAP_PROTECT=1 unprivileged "$INFO" --check'
    fi
}

group_json() {
    [ "$HAS_JSON" = 1 ] || { echo 'skipped: built without jansson'; exit 77; }
    json facts 0 'd["tool"] == "utofu-info" and d["job"]["size"] == 1 and len(d["tnis"]) == 6' \
        "$INFO" --json
    json provider 0 'd["provider"] == {"wanted": "shm", "in_use": ["shm"], "why": "UTOFU_PROVIDER=shm"}' \
        env UTOFU_PROVIDER=shm "$INFO" --json
    json caps 0 'd["tnis"][5]["onesided"]["max_putget_size"] == 16777215 and
        "bfpsum" in d["tnis"][5]["barrier"]["reduce_ops"]' "$INFO" --json
    json job 0 'sorted(x["job"]["rank"] for x in lines) == [0, 1, 2] and
        {x["job"]["node"] for x in lines} == {0, 1}' \
        "$UTOFURUN" -n 3 --nodes 2 "$INFO" --json --all
    json environment 0 'len(d["environment"]) > 20 and all(x["valid"] for x in d["environment"])' \
        "$INFO" -e --json
    json odd_bytes 0 'any(x["value"].startswith("\"?") for x in d["environment"])' \
        env UTOFU_STATS=file=$'"\xff\n\t' "$INFO" -e --json
    json bad_value 1 'd["error"] and "job" not in d' env UTOFU_ARMW=x "$INFO" --json
    json checks 0 'd["num_failed"] == 0 and '"$(verdict communication 'c["verdict"] == "ok"')" \
        env UTOFU_PROVIDER=shm "$INFO" --check --json
    json failed_check 1 'd["num_failed"] == 2 and '"$(verdict environment 'c["remedy"]')" \
        env UTOFU_PROVIDER=shm UTOFU_ARMW=x "$INFO" --check --json
}

group_guest() {
    [ -e /run/rxe-vm/guest-run ] || { echo 'skipped: this is not a guest of rxe-vm'; exit 77; }
    [ "$HAS_JSON" = 1 ] || { echo 'skipped: built without jansson'; exit 77; }
    ulimit -l unlimited
    check names_rxe0 0 '^  rxe0:1 +active, Ethernet' 1 "$INFO"
    json gid_and_state 0 'd["ports"][0]["gid"] == "::ffff:10.77.0.1" and
        d["ports"][0]["state"] == "active" and d["ports"][0]["tnis"] == [0, 1, 2, 3, 4, 5] and
        d["provider"]["in_use"] == ["shm", "verbs"]' "$INFO" --json
    check all_well 0 '^nothing would keep' 1 "$INFO" --check
    check all_well_verbs 0 '^nothing would keep' 1 env UTOFU_PROVIDER=verbs "$INFO" --check
    check small_memlock 1 'FAIL +communication: TNI 0: no VCQ' 1 \
        bash -c 'ulimit -l 64; unprivileged "$INFO" --check'
    check small_memlock_remedy 1 'note +locked memory: a process may lock 64 KiB' 1 \
        bash -c 'ulimit -l 64; unprivileged "$INFO" --check'
    check small_memlock_of_root 0 'does not apply to this user' 1 \
        bash -c 'ulimit -l 64; exec "$INFO" --check'
    check wrong_device 1 '^FAIL +RDMA port: rxe0:1 is not among UTOFU_VERBS_DEVICES' 1 \
        env UTOFU_VERBS_DEVICES=mlx5_9 "$INFO" --check
    check small_memlock_says 1 '^ +may lock 64 KiB of memory .ulimit -l.: raise the limit' 1 \
        bash -c 'ulimit -l 64; unprivileged "$INFO" --check'
    check no_memlock_says 1 '^ +lock 0 KiB of memory .ulimit -l.: raise the limit' 1 \
        bash -c 'ulimit -l 0; unprivileged "$INFO" --check'
    json device_and_port 0 'd["ports"][0]["tnis"] == [0, 1, 2, 3, 4, 5]' \
        env UTOFU_VERBS_DEVICES=rxe0:1 "$INFO" --json
    check misspelt 0 "UTOFU_VERBS_DEVICES: 'rxe_0' is not used: .*here .rxe0.," 1 \
        env UTOFU_VERBS_DEVICES='rxe_0, rxe0' "$INFO"
    json places 0 'd["ports"][0]["max_connections"] == 8' env UTOFU_VERBS_MAX_QPS=8 "$INFO" --json
    check places_in_text 0 'at most 8 connections of this process' 1 \
        env UTOFU_VERBS_MAX_QPS=8 "$INFO"
    check order 0 'data in order: Soft-RoCE keeps it' 1 "$INFO"
    json order_is_set 0 'd["ports"][0]["data_in_order"] is False and
        d["ports"][0]["data_in_order_why"] == "UTOFU_VERBS_ORDER=safe"' env UTOFU_VERBS_ORDER=safe "$INFO" --json
    json places_shared 0 'd["ports"][0]["max_connections"] > 8' "$INFO" --json
    json gid_index 0 'd["ports"][0]["gid"].startswith("fe80")' \
        env UTOFU_VERBS_CONNECT=gid_index=0 "$INFO" --json
    check wrong_gid_index 1 'does not start: gid_index=9 of UTOFU_VERBS_CONNECT is no usable GID' 1 \
        env UTOFU_VERBS_CONNECT=gid_index=9 "$INFO" --check
    check report 0 '^rxe0/ports/1/(state:4: ACTIVE|link_layer:Ethernet)$|^ *hca_id:.*rxe0' 3 "$INFO" -r-
    sysctl -qw net.ipv4.neigh.default.gc_thresh3=2
    check few_neighbours 0 '^\[0 .* note +neighbours: the kernel keeps the addresses of 2 hosts' 1 \
        "$UTOFURUN" -n 3 --nodes 3 "$INFO" --check
    sysctl -qw net.ipv4.neigh.default.gc_thresh3=1024
    json subnet 0 'd["ports"][0]["gid"].startswith("fe80")' \
        env UTOFU_VERBS_SUBNETS=10.78.0.0/16,fe80::/10,10.77.0.0/16 "$INFO" --json
    check wrong_subnet 1 'does not start: UTOFU_VERBS_SUBNETS=10.78.0.0/16: no$' 1 \
        env UTOFU_VERBS_SUBNETS=10.78.0.0/16 UTOFU_PROVIDER=verbs "$INFO" --check
    check no_subnet 1 "does not start: UTOFU_VERBS_SUBNETS: '10.77.0.1/x' is no$" 1 \
        env UTOFU_VERBS_SUBNETS=10.77.0.1/x UTOFU_PROVIDER=verbs "$INFO" --check
    netdev=$("$INFO" --json | "$PYTHON" -c 'import json, sys
print(json.load(sys.stdin)["ports"][0]["netdev"])')
    ip link set "$netdev" down
    check down 0 "^note +RDMA port: rxe0:1 is down" 1 "$INFO" --check
    check down_verbs 1 "FAIL +RDMA port: rxe0:1 is down" 1 env UTOFU_PROVIDER=verbs "$INFO" --check
    check down_remedy 0 "ip link set $netdev up" 1 "$INFO" --check
    check down_one_host 0 'note +RDMA port: rxe0:1' 1 "$UTOFURUN" -n 2 "$INFO" --check
    check down_facts 0 'not used: is down' 1 "$INFO"
    ip link set "$netdev" up
    sysctl -qw "net.ipv6.conf.$netdev.disable_ipv6=1"
    ip addr flush dev "$netdev"
    check no_address 1 'FAIL +RDMA port: rxe0:1 (is active but has no address|has no GID of an IP address)' 1 \
        env UTOFU_PROVIDER=verbs "$INFO" --check
    rdma link delete rxe0
    check deleted 0 '^note +RDMA device: there is none' 1 "$INFO" --check
    check deleted_says 1 'does not start: no RDMA device with an active port' 1 \
        env UTOFU_PROVIDER=verbs "$INFO" --check
}

run_group "$1"
