#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Addresses and routes that cannot be resolved for longer than UTOFU_PEER_TIMEOUT fail
# communications when UTOFU_JOB_TIMEOUT is over, and not before.
# Usage: unresolved.sh BUILD
set -u
build=$1 folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export UTOFU_PEER_TIMEOUT=1
run() { LD_PRELOAD=$build/tests/rxe/libunresolved.so "$build/tools/utofurun" -n 2 "$@" "$build/examples/pingpong_notice"; }
# 12 tries take more than six seconds
UNRESOLVED=12 run >"$folder/first" 2>&1 || { cat "$folder/first"; exit 1; }
cat "$folder/first"
grep -q "unresolved: 12 addresses, 12 routes" "$folder/first" || { echo "nothing was unresolved"; exit 1; }
# every try fails
UTOFU_JOB_TIMEOUT=3 UTOFU_LOG_LEVEL=info UNRESOLVED=1000 run --timeout 30 >"$folder/second" 2>&1
grep "no connection from .* there is no route" "$folder/second" | head -1 | tee "$folder/first"
grep -Eq "in [2-9][0-9]{3} ms" "$folder/first" # not the UTOFU_PEER_TIMEOUT
