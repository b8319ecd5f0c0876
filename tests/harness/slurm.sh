# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A Slurm for tests of programs started by srun.

free_port() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# False, with the reason on standard output: no Slurm can be started.
has_slurm() {
    local program
    PATH=$PATH:/usr/sbin
    for program in srun sinfo slurmctld slurmd munged; do
        command -v $program >/dev/null || {
            echo "no $program"
            return 1
        }
    done
    [ "$(id -u)" = 0 ] || {
        echo 'slurmd takes root'
        return 1
    }
}

# A Slurm of one node on the loopback interface, started by hand, independent of the system's. With
# the default timeouts srun gives up if the daemons wait long for a CPU.
#
# start_slurm FOLDER: afterwards srun uses it; not 0: the logs in FOLDER have the reason
slurm_daemons=()
start_slurm() {
    local at=$1 name port i
    name=$(hostname -s)
    port=$(free_port)
    mkdir "$at/state" "$at/spool"
    chmod 755 "$at"
    head -c 1024 /dev/urandom >"$at/key"
    chmod 400 "$at/key"
    cat >"$at/slurm.conf" <<END
ClusterName=loopback
SlurmctldHost=$name(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$at/munge.socket
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$at/state
SlurmdSpoolDir=$at/spool
SlurmctldPidFile=$at/slurmctld.pid
SlurmdPidFile=$at/slurmd.pid
SlurmctldLogFile=$at/slurmctld.log
SlurmdLogFile=$at/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
MessageTimeout=100
TCPTimeout=60
SlurmdTimeout=300
NodeName=$name NodeAddr=127.0.0.1 CPUs=$(nproc)
PartitionName=all Nodes=$name Default=YES MaxTime=INFINITE State=UP
END
    export SLURM_CONF=$at/slurm.conf
    munged --foreground --force --key-file="$at/key" --socket="$at/munge.socket" \
        --pid-file="$at/munged.pid" --log-file="$at/munged.log" --seed-file="$at/seed" \
        >"$at/munged.out" 2>&1 &
    slurm_daemons+=($!)
    for ((i = 0; i < 100; i++)); do [ -S "$at/munge.socket" ] && break; sleep 0.05; done
    slurmctld -D >"$at/slurmctld.out" 2>&1 &
    slurm_daemons+=($!)
    slurmd -D -N "$name" >"$at/slurmd.out" 2>&1 &
    slurm_daemons+=($!)
    for ((i = 0; i < 200; i++)); do
        sinfo -h -o %t 2>/dev/null | grep -q idle && return 0
        sleep 0.1
    done
    return 1
}

stop_slurm() {
    kill "${slurm_daemons[@]}" 2>/dev/null
    wait "${slurm_daemons[@]}" 2>/dev/null
}
