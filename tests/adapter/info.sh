#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# utofu-info says which receive queues an adapter gets, and which of its ports are used.
# usage: info.sh WITH_ADAPTER UTOFU_INFO
set -eu
with_adapter=$1
info=$2

says() {
    text=$1
    shift
    "$@" "$with_adapter" --profile "$profile" -- "$info" >"$out"
    grep -q -- "$text" "$out" || {
        echo "$profile: nothing says '$text':"
        cat "$out"
        exit 1
    }
}

out=$(mktemp)
trap 'rm -f "$out"' EXIT
export UTOFU_PROVIDER=verbs
profile=mlx5
says '1024 receives, shared by the connections of a VCQ' env
says 'data in order: the adapter promises it' env
says '300 receives, shared by the connections of a VCQ' env UTOFU_VERBS_TUNE=srq_depth=300
says '80 receives for each connection: no shared receive queue' env UTOFU_TEST=srq=0
says 'offers enhancements (ECE) of vendor 0x15b3: 0x70000012' env
"$with_adapter" --profile mlx5 -- "$info" --json >"$out"
grep -q '"ece_vendor": *5555' "$out"
profile=irdma
says '80 receives for each connection: no shared receive queue' env
says '100 receives for each connection' env UTOFU_VERBS_TUNE=rq_depth=100
"$with_adapter" --profile irdma -- "$info" --json >"$out"
grep -q '"receives_per_connection": *80' "$out"
grep -q '"shared_receives": *0' "$out"
grep -q '"ece_options": *0' "$out"
! "$with_adapter" --profile irdma -- "$info" | grep -q enhancements || { echo "irdma has enhancements"; exit 1; }

profile=adaptive-routing
# why depends on the CPU: on an AMD Zen keys with relaxed ordering are faster
says 'data in any order but for units of 64 bytes: \(the adapter promises none\|memory keys with relaxed ordering\)' env
says 'data in any order but for units of 8 bytes: UTOFU_VERBS_ORDER=safe' env UTOFU_VERBS_ORDER=safe
profile=line128
says 'data in any order but for units of 128 bytes: the adapter promises each aligned 128 bytes' env
says 'cache_line_size *128' env
"$with_adapter" --profile line128 -- "$info" --json >"$out"
grep -q '"data_in_order_unit": *128' "$out"
grep -q '"relaxed_keys": *false' "$out"
profile=relaxed-keys
says 'data in any order but for units of 64 bytes: memory keys with relaxed ordering' env
says 'memory is registered with relaxed ordering' env
says 'data in any order but for units of 8 bytes: UTOFU_VERBS_ORDER=safe' env UTOFU_VERBS_ORDER=safe
says 'memory is registered with relaxed ordering' env UTOFU_VERBS_ORDER=safe
profile=mlx5
says 'memory is registered with relaxed ordering' env UTOFU_VERBS_ORDER=relaxed
profile=rxe
says 'data in order: Soft-RoCE keeps it' env

# One network, and no slow port, unless the user names them.
profile=rails
says 'listens at 10.77.0.1 in 10.77.0.0/24,' env
says 'not used: is in 10.78.0.0/24, and rxe0:1 in 10.77.0.0/24: if these reach each other' env
says 'listens at 10.78.0.1 in 10.78.0.0/24,' env UTOFU_VERBS_SUBNETS=10.78.0.0/16
says 'listens at 10.78.0.1 in 10.78.0.0/24,' env UTOFU_VERBS_DEVICES=rxe0:1,rxe0:2
says 'TNI 0 2 4$' env UTOFU_VERBS_DEVICES=rxe0
# By which ports long puts go.
says 'long puts, from 262144 bytes on, go in parts by rxe0:1 and rxe0:2$' env UTOFU_VERBS_DEVICES=rxe0
says 'long puts, from 262144 bytes on, go in parts by rxe0:2 and rxe0:1$' env UTOFU_VERBS_DEVICES=rxe0
says 'long puts, from 9000 bytes on' env UTOFU_VERBS_DEVICES=rxe0 UTOFU_VERBS_TUNE=rails=9000
says 'long puts go by this port alone: UTOFU_VERBS_TUNE has rails=0' env UTOFU_VERBS_DEVICES=rxe0 UTOFU_VERBS_TUNE=rails=0
says 'long puts go by this port alone: no other one is used' env
"$with_adapter" --profile rails -- "$info" --json >"$out"
grep -q '"long_puts": *"long puts go by this port alone: no other one is used"' "$out"
profile=dual
says 'not used: has 2500 Mbit/s, and rxe0:2 has 10000: UTOFU_VERBS_DEVICES can name it' env
says 'listens at 10.78.0.1 in 10.78.0.0/24,' env
says 'listens at 10.77.0.1 in 10.77.0.0/24,' env UTOFU_VERBS_DEVICES=rxe0:1
"$with_adapter" --profile dual -- "$info" --json >"$out"
grep -q '"speed_mbit": *10000' "$out"
grep -q '"network": *"10.78.0.0/24"' "$out"

# Two adapters with one address, by a bond over both: one is used, however connections are made.
sys=$(mktemp -d)
trap 'rm -rf "$out" "$sys"' EXIT
mkdir -p "$sys/sys/class/net/bond0/bonding"
echo '802.3ad 4' >"$sys/sys/class/net/bond0/bonding/mode"
profile=bond
for connect in auto ud; do
    says 'not used: has the address of rxe0:1, 10.77.0.1, by bond0 (802.3ad): packets arrive at either' \
        env "UT_ADAPTER_SYS=$sys" "UTOFU_VERBS_CONNECT=$connect"
    says 'TNI 0 1 2 3 4 5$' env "UTOFU_VERBS_CONNECT=$connect"
done
says 'not used: is active but has no address to listen on (1 tried)' env UTOFU_VERBS_CONNECT=rdmacm
says 'not used: has the address of rxe0:1, 10.77.0.1: packets' env UTOFU_VERBS_DEVICES=rxe0,rxe1

# Functions of one physical port, and the links of a bond.
for device in rxe0 rxe1; do
    mkdir -p "$sys/sys/class/infiniband/$device/device"
    echo PCI_SLOT_NAME=0000:03:00.0 >"$sys/sys/class/infiniband/$device/device/uevent"
done
profile=twins
says 'long puts, from 262144 bytes on, go in parts by rxe0:1 and rxe1:1$' env
says 'long puts go by this port alone: rxe1:1 has the same physical link' env "UT_ADAPTER_SYS=$sys"
# One adapter in two slots: by the number of its functions, and of its sockets where they have one.
profile=socket-direct
echo PCI_SLOT_NAME=0000:81:00.0 >"$sys/sys/class/infiniband/rxe1/device/uevent"
says 'long puts go by this port alone: rxe1:1 has the same physical link' env "UT_ADAPTER_SYS=$sys"
echo PCI_SLOT_NAME=0000:81:00.1 >"$sys/sys/class/infiniband/rxe1/device/uevent"
says 'long puts, .*, go in parts by rxe0:1 and rxe1:1$' env "UT_ADAPTER_SYS=$sys"
for number in 0 1; do
    mkdir -p "$sys/sys/class/infiniband/rxe$number/ports/1/gid_attrs/ndevs" "$sys/sys/class/net/eth$number"
    echo "eth$number" >"$sys/sys/class/infiniband/rxe$number/ports/1/gid_attrs/ndevs/0"
    echo p0 >"$sys/sys/class/net/eth$number/phys_port_name"
done
says 'long puts go by this port alone: rxe1:1 has the same physical link' env "UT_ADAPTER_SYS=$sys"
echo PCI_SLOT_NAME=0000:81:00.0 >"$sys/sys/class/infiniband/rxe1/device/uevent"
echo p1 >"$sys/sys/class/net/eth1/phys_port_name"
says 'long puts, .*, go in parts by rxe0:1 and rxe1:1$' env "UT_ADAPTER_SYS=$sys"
profile=twins
echo p0 >"$sys/sys/class/net/eth1/phys_port_name"
says 'long puts, .*, go in parts by rxe0:1 and rxe1:1$' env "UT_ADAPTER_SYS=$sys"
profile=lag
echo 2 >"$sys/sys/class/net/bond0/bonding/ad_num_ports"
says 'long puts, .*, go in parts by mlx5_bond_0:1, a bond of several links$' env "UT_ADAPTER_SYS=$sys"
says 'long puts go by this port alone: no other one is used' env

# Of an adapter that network namespaces share only the addresses of this one are used, unless one is named.
profile=netns
for connect in auto rdmacm ud; do
    says 'listens at 10.77.0.1 in 10.77.0.0/24' env "UTOFU_VERBS_CONNECT=$connect"
    says 'not used: .* (0 tried); it has 1 addresses that no interface of this network namespace has: not used' \
        env "UTOFU_VERBS_CONNECT=$connect"
done
says 'rxe1:1 *active, Ethernet, MTU' env # its interface is elsewhere
says 'listens at 10.76.0.9 in 10.76.0.0/24, connects by ud' env UTOFU_VERBS_CONNECT=ud,gid_index=1

# InfiniBand: one fabric is one network, whatever the IP addresses; two fabrics are not, though they have one prefix.
profile=fabric
says 'listens at LID 17 in 10.77.0.0/24, connects by ud,' env
says 'listens at LID 18 in 10.78.0.0/24, connects by ud,' env
says 'TNI 1 3 5$' env
says 'listens at 10.77.0.1 in 10.77.0.0/24, connects by rdmacm,' env UTOFU_VERBS_DEVICES=mlx5_0:1
says 'not used: is in 10.78.0.0/24, and mlx5_0:1 in 10.77.0.0/24' env UTOFU_VERBS_CONNECT=rdmacm
profile=fabrics
says 'listens at 10.77.0.1 in 10.77.0.0/24, connects by rdmacm,' env
says 'not used: is in 10.78.0.0/24, and mlx5_0:1 in 10.77.0.0/24: if these reach each other' env

# In large jobs on InfiniBand the subnet manager is not asked for each connection.
says 'listens at LID 17 in 10.77.0.0/24, connects by ud,' env UTOFU_VERBS_CONNECT=ud_from=1
says 'listens at 10.77.0.1 in 10.77.0.0/24, connects by rdmacm,' env UTOFU_VERBS_CONNECT=ud_from=2
says 'listens at 10.77.0.1 in 10.77.0.0/24, connects by rdmacm,' env UTOFU_VERBS_CONNECT=ud_from=0
says 'listens at 10.77.0.1 in 10.77.0.0/24, connects by rdmacm,' env UTOFU_VERBS_CONNECT=rdmacm,ud_from=1
profile=rxe
says 'listens at 10.77.0.1 in 10.77.0.0/24, connects by rdmacm,' env UTOFU_VERBS_CONNECT=ud_from=1

# What is faster than NDR is known, and a port that would hold it up is not used beside it.
profile=xdr
says 'active, InfiniBand, MTU 4096 of 4096, 800 Gbit/s' env
says 'not used: has 400000 Mbit/s, and mlx5_0:2 has 800000: TNIs with this port would slow the others down' env

# What names nothing that is there is said, with what is there.
complains() {
    text=$1
    shift
    # shellcheck disable=SC2086 # nothing, or an option and its value
    "$@" "$with_adapter" --profile "$profile" $fault -- "$info" >"$out" 2>&1 || true
    grep -q -- "$text" "$out" || {
        echo "$profile: nothing complains '$text':"
        cat "$out"
        exit 1
    }
}
fault=
profile=bond
complains 'warning: .*rxe0:1 and rxe1:1 have the same address, 10.77.0.1, by bond0 (802.3ad): packets .* are lost' \
    env "UT_ADAPTER_SYS=$sys"
profile=rails
complains "UTOFU_VERBS_DEVICES=mlx5_7 names no usable port .*; RDMA devices here: rxe0" env UTOFU_VERBS_DEVICES=mlx5_7
complains "UTOFU_VERBS_DEVICES: 'rxe0:9' is not used: it is not one of the devices here (rxe0)" env UTOFU_VERBS_DEVICES=rxe0:1,rxe0:9
complains "gid_index=7 of UTOFU_VERBS_CONNECT is no usable GID of an active port; .*rxe0:1 1 10.77.0.1, rxe0:2 0 10.78.0.1" env UTOFU_VERBS_CONNECT=gid_index=7
complains "UTOFU_VERBS_SUBNETS=10.1.0.0/16: no active port has an address there; .*rxe0:1 1 10.77.0.1" env UTOFU_VERBS_SUBNETS=10.1.0.0/16
complains "UTOFU_VERBS_SUBNETS: '10.1' is not a subnet" env UTOFU_VERBS_SUBNETS=10.1
profile=twins
complains "UTOFU_VERBS_DEVICES=mlx5_7 names no usable port .*; RDMA devices here: rxe0, rxe1$" env UTOFU_VERBS_DEVICES=mlx5_7
complains "gid_index=7 of UTOFU_VERBS_CONNECT is no usable GID of an active port; .*: rxe0:1 0 [0-9a-f:]*, rxe0:1 1 10.77.0.1, rxe1:1 0 10.77.0.2$" \
    env UTOFU_VERBS_CONNECT=gid_index=7
profile=rails
fault='--fault port=3600000'
complains "not used: .*down" env UTOFU_VERBS_DEVICES=rxe0:1
fault='--fault create=4'
complains "opening on rxe0 failed: Cannot allocate memory" env
fault='--fault create=9'
complains "not used: cannot be set up" env

# How connections are made; InfiniBand needs no address.
profile=rxe
says 'listens at 10.77.0.1 in .*, connects by rdmacm,' env
says 'listens at 10.77.0.1 in .*, connects by ud,' env UTOFU_VERBS_CONNECT=ud
profile=ib
says 'listens at LID 17 in fe80::/64, connects by ud,' env
says 'not used: is active but has no address to listen on' env UTOFU_PROVIDER=auto UTOFU_VERBS_CONNECT=rdmacm
"$with_adapter" --profile ib -- "$info" --json >"$out"
grep -q '"connects_by": *"ud"' "$out"
"$with_adapter" --profile ib -- "$info" --check >"$out" || true
grep -q '^ok *RDMA port: mlx5_0:1 is active' "$out"
for pkey in 1 32769 5; do
    said=$(UTOFU_PROVIDER=auto UTOFU_VERBS_CONNECT=pkey=$pkey "$with_adapter" --profile ib -- "$info" 2>&1)
    wrong=$(echo "$said" | grep -c "pkey=0x5 of UTOFU_VERBS_CONNECT: mlx5_0:1 is not in this partition" || true)
    [ "$((wrong > 0))" = "$((pkey == 5))" ] || {
        echo "pkey=$pkey: $said"
        exit 1
    }
done
