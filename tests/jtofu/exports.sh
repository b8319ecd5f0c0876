#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The library exports the functions of jtofu.h, those of PMIx that it comes before, and nothing else; and it
# does not need libpmix.
#
# usage: exports.sh LIBRARY FOLDER-OF-THE-HEADERS
library=$1 folder=$2
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
}

exported=$(nm -D --defined-only "$library" | sed -n 's/.* [A-Z] \([A-Za-z_0-9]*\)\(@.*\)\{0,1\}$/\1/p' | grep -v '^JTOFU_0' | sort)
declared=$(sed -n 's/^[a-z].* \(jtofu_[a-z_]*\)(.*/\1/p' "$folder/jtofu.h" | sort)
[ "$(echo "$declared" | wc -l)" = 20 ] || fail "jtofu.h does not declare 20 functions: $declared"
[ "$(echo "$exported" | grep -v '^PMIx_')" = "$declared" ] || fail "exported: $exported; declared: $declared"
pmix=$(echo "$exported" | grep '^PMIx_' | tr '\n' ' ')
[ -z "$pmix" ] || [ "$pmix" = 'PMIx_Commit PMIx_Fence PMIx_Fence_nb PMIx_Finalize PMIx_Get PMIx_Get_nb PMIx_Init PMIx_Initialized PMIx_Put ' ] ||
    fail "functions of PMIx: $pmix"
! readelf -d "$library" | grep NEEDED | grep -q pmix || fail 'the library needs libpmix'
readelf -d "$library" | grep -q NODELETE || fail 'the library can be unloaded while calls lead to it'
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
