#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# An MPI program over the software adapter, with a layer preloaded after the adapter's library.
# usage: in_front.sh LIBRARY LAUNCHER PROCESSES COMMAND...
set -eu
library=$1
launcher=$2
processes=$3
shift 3
exec "$launcher" -n "$processes" env LD_PRELOAD="$library:$LD_PRELOAD" PRDMA_METHOD=eager "$@"
