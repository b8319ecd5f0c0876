#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run on each of two linked guests, each with a second port in a network of its own: the port with a route to the peer
# is used.
# Usage: rails.sh BUILD
set -eu
build=$1 folder=$(mktemp -d)
trap 'rdma link del rxe1; ip link del rail1; rm -rf "$folder"' EXIT
ip link add rail1 type dummy # as slow as eth0, for rdma_rxe
ip addr add 10.78.0.$((RXE_HOST + 1))/24 dev rail1
ip link set rail1 up
rdma link add rxe1 type rxe netdev rail1
until rdma link show rxe1/1 | grep -q ACTIVE; do sleep 0.2; done
"$build/tools/utofu-info" >"$folder/info"
cat "$folder/info"
grep -q "not used: is in 10.78.0.0/24, and rxe0:1 in 10.77.0.0/24" "$folder/info"
for program in session/test_session_graphs barrier/test_barrier_random_circuits; do
    "$build/tests/$program" -j1 >"$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
    tail -1 "$folder/said"
    grep -q "Passing: [1-9].*Failing: 0" "$folder/said"
done
