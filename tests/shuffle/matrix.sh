#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: matrix.sh SCRIPT BUILD. scripts/shuffle-matrix runs the programs named with each seed, and reports those that fail.
set -eu
script=$1 build=$2
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT

fail() {
    echo "matrix.sh: $*" >&2
    exit 1
}

# a build whose programs print their environment, and one of which fails with one seed
mkdir -p "$there"/{tools,examples,tests/api,tests/session}
cat >"$there/tools/utofurun" <<'END'
#!/bin/sh
echo "seed $UTOFU_SHUFFLE check ${UTOFU_CHECK:-} processes $2 ${3##*/}" >>"$SAID"
[ "$UTOFU_SHUFFLE" != 4,level=3 ]
END
cat >"$there/tests/api/test_put_get" <<'END'
#!/bin/sh
echo "seed $UTOFU_SHUFFLE check ${UTOFU_CHECK:-} arguments $*" >>"$SAID"
END
cp "$there/tools/utofurun" "$there/examples/halo_exchange"
chmod +x "$there"/*/* "$there"/tests/api/test_put_get
export SAID=$there/said TMPDIR=$there

rc=0
"$script" --build "$there" --seeds 3-5 halo_exchange >"$there/lines" || rc=$?
[ $rc = 1 ] || fail "a failure gives $rc"
[ "$(cat "$SAID")" = "seed 3,level=3 check  processes 4 halo_exchange
seed 4,level=3 check  processes 4 halo_exchange
seed 5,level=3 check  processes 4 halo_exchange" ] || fail "$(cat "$SAID")"
grep -q '^4 .*halo_exchange .*FAIL (' "$there/lines" || fail "no line for the failure: $(cat "$there/lines")"
[ "$(grep -c ' OK, ' "$there/lines")" = 2 ] || fail "$(cat "$there/lines")"

rm "$SAID"
"$script" --build "$there" --seeds 7 --check api/test_put_get >"$there/lines"
"$script" --build "$there" --seeds 7 api/test_put_get >"$there/lines"
"$script" --build "$there" --seeds 7 --level 4 api/test_put_get >"$there/lines"
[ "$(cat "$SAID")" = "seed 7,level=3 check abort arguments -j1 --filter put_get/random*
seed 7,level=2 check  arguments -j1 --filter put_get/!(put_to_a_vcq_that_is_gone*)
seed 7,level=4 check  arguments -j1 --filter put_get/!(put_to_a_vcq_that_is_gone*)" ] || fail "$(cat "$SAID")"

for wrong in '--seeds 5-3' '--seeds x' '--level 9' '--unknown' 'no_such_program' '--build /nowhere'; do
    rc=0
    # shellcheck disable=SC2086 # an option and its value
    "$script" $wrong >/dev/null 2>"$there/why" || rc=$?
    [ $rc = 2 ] || fail "$wrong gives $rc"
    [ -s "$there/why" ] || fail "$wrong says nothing"
done

# and a real program
"$script" --build "$build" --seeds 1-2 session_ring session/test_session_examples >"$there/lines" || fail "$(cat "$there/lines")"
[ "$(grep -c 'OK, ' "$there/lines")" = 4 ] || fail "$(cat "$there/lines")"
