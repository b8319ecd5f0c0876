#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# waits.sh WAITS UTOFURUN: a wait of more than three seconds is logged with its reason, and so is
# giving up. The programs run concurrently; each gives up after five seconds.
set -u
waits=$1 utofurun=$2
checks=0 failures=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# shellcheck source=tests/harness/checks.sh
. "$(dirname "$0")/../harness/checks.sh"
unset UTOFU_LOG_LEVEL UTOFU_CHECK UTOFU_SHUFFLE UTOFU_PROVIDER
export UTOFU_JOB_TIMEOUT=60 UTOFU_PEER_TIMEOUT=5
mkdir "$folder/meet"

# start NAME command...: its output goes to a file
start() {
    local name=$1
    shift
    timeout 60 "$@" >"$folder/$name" 2>&1 </dev/null &
}

# says NAME TIMES PATTERN
says() {
    local lines
    checks=$((checks + 1))
    lines=$(grep -c -E -- "$3" "$folder/$1")
    if [ "$lines" != "$2" ]; then
        cp "$folder/$1" "$folder/out"
        fail "$1: $lines lines, not $2, match '$3'"
    fi
}

hand() {
    env UTOFU_RANK=1 UTOFU_SIZE=2 UTOFU_JOB_TIMEOUT=5 "$@"
}

for how in free exit; do
    start "$how" "$utofurun" -n 2 --timeout 12 "$waits" "$how"
done
# the launcher does not know the node of the other process
start node env UTOFU_ROOT="$folder/meet" UTOFU_JOB_TIMEOUT=5 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_NODEID=0 \
    SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE='1(x2)' "$waits" node
export -f hand
start nobody bash -c "hand UTOFU_ROOT=unix:@nobody-$$ '$waits' look"
# a server that accepts connections and does not answer
cat >"$folder/mute.py" <<'END'
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind("\0" + sys.argv[1])
s.listen()
open(sys.argv[2], "w").close()
time.sleep(30)
END
python3 "$folder/mute.py" "mute-$$" "$folder/listens" &
mute=$!
until [ -e "$folder/listens" ]; do sleep 0.1; done
start mute bash -c "hand UTOFU_ROOT=unix:@mute-$$ '$waits' look"
# a process that does not end by SIGTERM, in a job that has failed
# shellcheck disable=SC2016 # the shell of the job expands it
start kill "$utofurun" -n 2 sh -c 'if [ "$UTOFU_RANK" = 1 ]; then sleep 1; exit 3; fi; trap "" TERM; sleep 30; sleep 30'
start session2 env UTOFU_PROGRESS_THREAD=0 "$utofurun" -n 2 "$waits" session
start session1 env UTOFU_PROGRESS_THREAD=0 "$utofurun" -n 1 "$waits" session
start thread2 "$utofurun" -n 2 "$waits" session
start free2 env UTOFU_PROGRESS_THREAD=0 "$utofurun" -n 2 --timeout 12 "$waits" node
for job in $(jobs -p); do
    [ "$job" = "$mute" ] || wait "$job"
done
kill "$mute"

under_way='1 communication to VCQ [0-9a-f]{16} \(probably rank 1\); that connection waits for the peer.s process to call'
says free 1 "warning: .*rank 0, engine.*utofu_free_vcq\(\) has waited 3 s for VCQ [0-9a-f]{16}: $under_way"
says free 1 "warning: .*utofu_free_vcq\(\) abandoned the communications under way on VCQ [0-9a-f]{16} after 5 s .*: $under_way"
says free 1 "^last error: utofu_free_vcq\(\) abandoned the communications under way on VCQ .*: $under_way"
says exit 1 "warning: .*exit\(\) has waited 3 s for VCQ [0-9a-f]{16}: $under_way"
says exit 1 "warning: .*exit\(\) abandoned the communications under way on VCQ [0-9a-f]{16} after 5 s .*: $under_way"
says node 1 'warning: .*the node of rank 1 is still unknown after 3 s: that rank has no file in UTOFU_ROOT=.*: it has not called the library yet, or'
says nobody 1 'warning: .*no process has served this job there for 3 s \(Connection refused\)'
says mute 1 'warning: .*the process that serves it \(rank 0\) has not answered for 3 s'
says kill 1 'utofurun: 1 process has not ended within 3 s after SIGTERM \(the first: rank 0, pid [0-9]+\); killing the job'
# relays that wait for their own processes
says session2 2 'warning: .*UTOFU_PROGRESS_THREAD=0, and a session-mode VCQ: .* leave the variable at 1'
for quiet in session1 thread2 free2; do
    says "$quiet" 0 'session-mode VCQ'
done
echo "$checks checks, $failures failures"
[ "$failures" = 0 ]
