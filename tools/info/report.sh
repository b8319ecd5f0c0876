#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a host says about itself and its adapters, for utofu-info --report, which contains this text
# and runs it as the standard input of sh. Nothing is changed.
exec 2>&1

section() { printf '\n==== %s ====\n' "$*"; }

# The output of a program that may be missing, or may hang.
show() { # PROGRAM [ARGUMENT]...
    if ! command -v "$1" >/dev/null; then
        echo "$1: not installed"
    elif command -v timeout >/dev/null; then
        timeout 20 "$@" </dev/null
    else
        "$@" </dev/null
    fi
}

files() { grep -s . "$@" /dev/null || true; }

section 'variables of other libraries'
env | grep -E '^(IBV_|RDMAV_|MLX[0-9]|UCX_|FI_|OMPI_MCA_|MPIR_CVAR_|LD_LIBRARY_PATH=|LD_PRELOAD=)' |
    grep -viE '^[^=]*(key|token|secret|passw)' | sort

section 'system'
uname -srvm
head -n 3 /etc/os-release
uptime
show lscpu | grep -E 'Model name|^CPU\(s\)|Thread|Core|NUMA'
head -n 3 /proc/meminfo
grep Huge /proc/meminfo
show df -h /dev/shm

section 'limits'
# shellcheck disable=SC3045 # all shells have it
ulimit -a
cat /proc/self/cgroup
for name in memory.max memory.limit_in_bytes pids.max; do
    find /sys/fs/cgroup -maxdepth 2 -name "$name" -exec grep -H . {} +
done

section 'kernel settings'
cd /proc/sys && files kernel/yama/ptrace_scope vm/unprivileged_userfaultfd vm/overcommit_memory \
    vm/max_map_count kernel/numa_balancing kernel/pid_max net/ipv4/neigh/default/gc_thresh? \
    net/ipv6/neigh/default/gc_thresh? net/ipv4/conf/*/arp_ignore net/ipv4/conf/*/rp_filter

section 'kernel modules'
grep -E '^(ib_|iw_|rdma|mlx|irdma|ice|bnxt|hns|efa|erdma|mana|qed|cxgb|ocrdma|hfi|rxe|siw|knem|xpmem|nv_peer)' \
    /proc/modules | cut -d' ' -f1-4

section 'packages'
if command -v dpkg-query >/dev/null; then
    dpkg-query -W rdma-core 'libibverbs*' 'librdmacm*' ibverbs-providers 'libpmix*' 'libopenmpi*' \
        'libmpich*' '*ofed*' 2>/dev/null
elif command -v rpm >/dev/null; then
    rpm -qa | grep -E 'rdma|ibverbs|pmix|openmpi|mpich|ofed'
fi
show ofed_info -s

section 'network devices'
show ip -s -d addr
section 'routes'
show ip route
show ip -6 route
echo "neighbours: $(show ip neigh | wc -l)"
section 'PCI'
show lspci -nn | grep -iE 'infiniband|ethernet|network|fabric|not installed'

section 'RDMA devices'
if cd /sys/class/infiniband; then
    for device in *; do
        for name in fw_ver hca_type board_id node_type device/vendor device/device device/numa_node \
            device/current_link_speed device/current_link_width; do
            files "$device/$name"
        done
    done
    section 'RDMA ports'
    for port in */ports/*; do
        files "$port/state" "$port/phys_state" "$port/rate" "$port/link_layer" "$port/lid" "$port/sm_lid" \
            "$port"/pkeys/[0-7]
        for gid in "$port"/gids/*; do
            grep -qs '[1-9a-f]' "$gid" || continue # unused entry
            echo "$gid: $(cat "$gid" "$port/gid_attrs/types/${gid##*/}" "$port/gid_attrs/ndevs/${gid##*/}" \
                2>/dev/null | tr '\n' ' ')"
        done
    done
    section 'RDMA counters that are not 0'
    files ./*/ports/*/counters/* ./*/ports/*/hw_counters/* | grep -v ':0$'
    section 'lossless Ethernet'
    cat ./*/ports/*/gid_attrs/ndevs/* 2>/dev/null | sort -u | while read -r netdev; do
        echo "$netdev:"
        show dcb pfc show dev "$netdev"
        show mlnx_qos -i "$netdev"
        show ethtool -a "$netdev"
    done
    files /sys/kernel/config/rdma_cm/*/ports/*/default_roce_*
fi
section 'RDMA as programs see it'
ls -l /dev/infiniband
show ibv_devinfo -v
show rdma link
show rdma system
show rdma resource

section 'kernel messages'
show dmesg | grep -iE 'infiniband|rdma|mlx[0-9]|bnxt|\<(hns|rxe|roce)|not permitted' | tail -n 40
