#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In check mode the layer has one finding only, and that on purpose: a slot of the board is read while its owner may
# write to it, and read again if it is not whole (read_slot in layers/jtofu/local_pmix.c).
# Usage: checked.sh UTOFURUN ARGUMENT...
set -u
found=$(mktemp)
trap 'rm -f "$found"' EXIT
UTOFU_CHECK=1 "$@" >"$found" 2>&1 || { cat "$found"; exit 1; }
cat "$found"
! grep -E '^utofu: check: .*\] [a-z-]+: ' "$found" | grep -v '\] origins: '
