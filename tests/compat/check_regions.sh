#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The regions of fapp and fipp are counted under the names of compat/.
#
# usage: check_regions.sh PROGRAM
out=$(UTOFU_STATS=1 UTOFU_LOG_LEVEL=warning "$1" 2>&1) || { echo "$out"; exit 1; }
for want in 'calls=1 .*name="fipp"' 'calls=1 .*name="halo\.1"' 'calls=1 .*name="sum"' \
    "region 'never started.1' is stopped" 'the region is NULL'; do
    echo "$out" | grep -q "$want" || { echo "FAIL: no $want in"; echo "$out"; exit 1; }
done
echo ok
