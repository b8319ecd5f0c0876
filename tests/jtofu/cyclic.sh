#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One process of a job of Open MPI or hydra: its rank decides on which of the nodes it says it is.
#
# usage: cyclic.sh NODES COMMAND...
nodes=$1 rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK} size=${PMI_SIZE:-$OMPI_COMM_WORLD_SIZE}
shift
export UTOFU_NODE=$((rank % nodes)) UTOFU_LOCAL_RANK=$((rank / nodes)) UTOFU_LOCAL_SIZE=$(((size + nodes - 1) / nodes))
exec "$@"
