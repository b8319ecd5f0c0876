#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A process of an MPI job with a layer in front of what is preloaded already, as the library of the software adapter.
# usage: in_front.sh LIBRARY [NAME=VALUE]... COMMAND...
set -eu
library=$1
shift
exec env LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}" "$@"
