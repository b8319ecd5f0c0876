#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# taken.sh LAUNCHER LIBRARY PROGRAM: all rounds of its two requests go through the layer.
set -u
said=$(timeout 60 "$1" -n 3 env LD_PRELOAD="$2${LD_PRELOAD:+:$LD_PRELOAD}" PRDMA_STATS=1 "$3" 2>&1) || exit 1
[ "$(grep -c 'stats: .*method eager,.* 20 rounds.*fell back 0 times' <<<"$said")" = 6 ] && exit
echo "$said"
exit 1
