#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One process of a job of hydra: the first one stops before it begins (../acp/waits.sh).
#
# usage: late.sh COMMAND...
if [ "$PMI_RANK" = 0 ]; then
    echo "stops $$"
    kill -STOP $$
fi
exec "$@"
