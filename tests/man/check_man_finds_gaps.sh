#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bad twin of check_man.py: a missing, incomplete or unclean page does not pass.
#
# usage: check_man_finds_gaps.sh PYTHON MAN-DIR VERSION-SCRIPT HEADER ENV-TABLE CODE-TABLE
set -u
here=$(dirname "$0")
python=$1 pages=$2 map=$3 header=$4 table=$5 codes=$6
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
failed=0

# each page is formatted once for each of its texts
mkdir "$tmp/cache"
export CHECK_MAN_CACHE="$tmp/cache"
# one function with its sections is sufficient, and quick
mkdir "$tmp/whole"
cp "$pages"/*.[17] "$pages/utofu.3" "$tmp/whole"
sed -i 's/(3)/()/g' "$tmp/whole"/*.[137]
cp "$pages/utofu_put.3" "$pages/putofu_put.3" "$tmp/whole"
sed -i '/^.SH SEE ALSO/,$d; s/(3)/()/g' "$tmp/whole/utofu_put.3"
printf '.SH SEE ALSO\nutofu_put(3)\n' >>"$tmp/whole/utofu_put.3"
sed -n '/UTOFU_1.0 {/p; /^ *p*utofu_put;/p; /local:/,/}/p' "$map" >"$tmp/map"

# gap WHAT TEXT COMMAND...: after the command in the folder of the pages, the check fails with TEXT
gap() {
    what=$1 text=$2
    shift 2
    rm -rf "$tmp/man"
    cp -r "$tmp/whole" "$tmp/man"
    (cd "$tmp/man" && "$@")
    "$python" "$here/check_man.py" "$tmp/man" "$tmp/map" "$header" "$table" "$codes" >"$tmp/out" 2>&1
    rc=$?
    [ $rc -eq 77 ] && { cat "$tmp/out"; exit 77; }
    if [ $rc -eq 0 ]; then
        echo "FAIL: $what: was not noticed"
        failed=1
    elif ! grep -q -- "$text" "$tmp/out"; then
        echo "FAIL: $what: not reported as \"$text\" but as:"
        cat "$tmp/out"
        failed=1
    fi
}

if ! "$python" "$here/check_man.py" "$tmp/whole" "$tmp/map" "$header" "$table" "$codes" >"$tmp/out" 2>&1; then
    grep -q '^skipped' "$tmp/out" && { cat "$tmp/out"; exit 77; }
    cat "$tmp/out"
    echo "FAIL: the pages to begin with are not good"
    exit 1
fi
gap "no page" "utofu_put.3: there is none" rm utofu_put.3
gap "no twin" "putofu_put.3: there is none" rm putofu_put.3
gap "no section" "no section THREAD SAFETY" sed -i '/^.SH THREAD/,/^.SH STAN/{/^.SH STAN/!d}' utofu_put.3
gap "no parameter" "PARAMETERS lacks edata" sed -i '/^.B .fIedata/d' utofu_put.3
gap "no unit" "length has no unit" sed -i 's/in bytes, 0 to//' utofu_put.3
gap "no return code" "RETURN VALUE lacks UTOFU_ERR_BUSY" sed -i '/^.B .fBUTOFU_ERR_BUSY/d' utofu_put.3
gap "other declaration" "SYNOPSIS is not the declaration" sed -i 's/size_t length/int length/' utofu_put.3
gap "no title" "does not name it: uTofu User" sed -i "s/uTofu User.(aqs Guide//" utofu_put.3
gap "no number" "does not name it: J2UL" sed -i 's/J2UL//' utofu-verbs.7
gap "no variable" "lacks UTOFU_ARMW" sed -i '/UTOFU_ARMW.*default/d' utofu-verbs.7
gap "no option" "lacks the option pkey" sed -i '/,pkey=.*default/d' utofu-verbs.7
gap "no old name" "its old name UTOFU_VERBS_PKEY" sed -i '/^.*UTOFU_VERBS_PKEY/d' utofu-verbs.7
gap "a variable of the tests" "shows UTOFU_TEST" sed -i 's/^.*UTOFU_ARMW.*default.*/&\n.TP\nUTOFU_TEST (options only)/' utofu-verbs.7
gap "cut enumeration" "TYPES AND CONSTANTS lacks: UTOFU_ERR_FATAL = .768" \
    sed -i '/^ *UTOFU_ERR_NOT_SUPPORTED = /,/^\.EE/{/NOT_SUPPORTED/!{/^\.EE/!d}}' utofu.3
gap "no code" "RETURN CODES lacks: UTOFU_ERR_MRQ_PEER (-193)" \
    sed -i '/UTOFU_ERR_MRQ_PEER.* (/,/^Remedy/d' utofu.3
gap "wrong number" "RETURN CODES lacks: UTOFU_ERR_BUSY (-4)" \
    sed -i '/UTOFU_ERR_BUSY.* (/s/4/5/' utofu.3
gap "no remedy" "RETURN CODES lacks: UTOFU_ERR_FULL" \
    sed -i '/UTOFU_ERR_FULL.* (/,/^Remedy/{/^Remedy/d}' utofu.3
gap "no tool" "utofurun.1: there is none" rm utofurun.1
gap "no such page" "refers to utofu_putt(3)" sed -i 's/utofu_put(3)/utofu_putt(3)/' utofu_put.3
if command -v mandoc >/dev/null; then
    gap "unknown macro" "mandoc -Tlint" sed -i 's/^.SH NOTES/.XX\n&/' utofu_put.3
fi

[ $failed -eq 0 ] && echo "ok"
exit $failed
