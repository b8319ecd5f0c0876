#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on_nodes.sh PROCESSES PROGRAM...: a process of an MPI launcher's job says that it is on one of several nodes, with so
# many processes each; the last node may have fewer.
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
export UTOFU_NODE=$((rank / $1)) UTOFU_LOCAL_RANK=$((rank % $1)) UTOFU_LOCAL_SIZE="$1"
shift
exec "$@"
