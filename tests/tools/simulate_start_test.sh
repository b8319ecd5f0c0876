#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# simulate_start_test.sh PROGRAM: "scripts/scale simulate" computes the questions that
# tests/bootstrap/ count.
program=$1
failures=0

# questions NAME COUNT MOST ARGUMENT...: COUNT in all, MOST by one process
questions() {
    local name=$1 count=$2 most=$3 line
    shift 3
    line=$("$program" simulate "$@" | tail -n 1)
    read -r _ _ got got_most _ <<<"$line"
    [ "$got $got_most" = "$count $most" ] && return
    echo "FAIL $name: $got and $got_most questions, not $count and $most"
    failures=$((failures + 1))
}

questions one_node 31 1 --nodes 1 --per-node 32 all
questions one_node_one_by_one 992 31 --nodes 1 --per-node 32 --one-by-one all
questions own_node_of_pmix 0 0 --nodes 1 --per-node 32 --launcher pmix all
# as bootstrap_questions: two for the other node
questions two_nodes_of_pmix 16 2 --nodes 2 --per-node 4 --launcher pmix all
# one process of each node
questions alone 12 3 --nodes 4 --per-node 1 all
questions tree_asks_parent_and_children 6 2 --nodes 4 --per-node 1 tree
# too many to be simulated one by one
questions many 8997000 2999 --nodes 3000 --per-node 1 --one-by-one all
for bad in '--nodes 0' '--per-node -1' 'ring' '--launcher none'; do
    # shellcheck disable=SC2086 # words
    "$program" simulate $bad >/dev/null 2>&1
    [ $? = 2 ] || { echo "FAIL $bad is taken"; failures=$((failures + 1)); }
done
echo "$failures failures"
[ "$failures" = 0 ]
