#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh LIBRARY COUNTER[,COUNTER...] PROGRAM [ARGUMENT...]: runs the program with a library whose counters begin below
# where they wrap, and checks that these counters have gone over it.
set -u
library=$1 counters=$2
shift 2
passed=$(mktemp)
trap 'rm -f "$passed"' EXIT
UT_WRAPS_FILE=$passed LD_PRELOAD="$library${LD_PRELOAD:+:$LD_PRELOAD}" "$@"
status=$?
[ $status = 0 ] || exit $status
for counter in ${counters//,/ }; do
    grep -qx "$counter" "$passed" || { echo "FAIL: $counter has not gone over its wrap; only: $(sort -u "$passed" | tr '\n' ' ')"; status=1; }
done
exit $status
