#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# spawn.sh PROGRAM LAUNCHER...: parent and spawned child refuse each other's VCQ ids.
set -u
program=$1
shift
export OMPI_MCA_reachable=weighted # netlink of Open MPI 5 finds no way from a host's address to the same address
for _ in 1 2 3; do
    said=$(timeout -k 5 100 "$@" "$program" 2>&1)
    grep -q '^same mark' <<<"$said" || break
done
printf '%s\n' "$said"
[ "$(grep -c '^refused$' <<<"$said")" = 2 ]
