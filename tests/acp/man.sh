#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A function without a description of its results is an error of make-man.
#
# usage: man.sh HEADER MAKE-MAN...
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sed '/^ \* @return 0: All have come/d; /^ \* @return -1: acp_init() was not called/d' "$1" >"$work/acp.h"
shift
"$@" layer "$work/acp.h" acp acpbl_utofu "$work/pages" 2>"$work/out" && { echo 'FAIL: it is taken'; exit 1; }
grep -q 'acp_sync: no @return' "$work/out" || { echo 'FAIL: make-man says something else'; cat "$work/out"; exit 1; }
echo ok
