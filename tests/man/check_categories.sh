#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The option category of UTOFU_LOG_LEVEL lists the categories of the log lines in the sources, and no others;
# and a table with a missing or an additional one is detected.
#
# usage: check_categories.sh ENV-TABLE FOLDER...
set -u
table=$1
shift
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT

# Literals in calls, whose arguments may begin on the next line, and in the macros of providers.
used() {
    grep -rhoPz --include='*.[ch]' '(?s)ut_(error|warn|info|debug)\(\s*"[a-z]+"|(LOG|CAT) "[a-z]+"|UT_LOG_[A-Z]+, "[a-z]+"' \
        "$@" | grep -oaP '"\K[a-z]+(?=")' | sort -u
}

# listed TABLE
listed() {
    sed -n '/^OPTION(LOG_CATEGORY/,/)$/s/^ *"all|\(.*\)",$/\1/p' "$1" | grep -o '[a-z]*' | sort -u
}

same() {
    diff <(listed "$1") "$tmp/used"
}

failed=0
used "$@" >"$tmp/used"
same "$table" || { echo "FAIL: $table (<) and the sources (>) name different categories"; failed=1; }
sed '/^OPTION(LOG_CATEGORY/,/)$/s/bootstrap|//' "$table" >"$tmp/lacks_one"
same "$tmp/lacks_one" >/dev/null && { echo "FAIL: a category that is not listed passes"; failed=1; }
sed '/^OPTION(LOG_CATEGORY/,/)$/s/bootstrap|/&gate|/' "$table" >"$tmp/has_one_more"
same "$tmp/has_one_more" >/dev/null && { echo "FAIL: a category that nothing has passes"; failed=1; }
[ $failed -eq 0 ] && echo ok
exit $failed
