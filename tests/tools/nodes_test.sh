#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The nodes of utofurun --nodes have System V IPC and /dev/shm of their own, as stacks for Fugaku share
# memory within a node; not with --share-ipc, and not, with a line, where there are no namespaces.
# Usage: nodes_test.sh UTOFURUN UTOFU-INFO
set -u
run=$(realpath "$1") info=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"; rm -f "/dev/shm/utofu-nodes.$$".*' EXIT
unset "${!UTOFU_@}"
failed=0
fail() {
    echo "FAIL: $*"
    cat "$folder/out" "$folder/err"
    failed=1
}
cd "$folder" || exit 1

# Each process makes a segment and a file of its own, and counts those that it sees when all are there.
cat >"$folder/share" <<END
#!/bin/sh
name=utofu-nodes.$$
ipcmk -M 4096 -p 0600 >/dev/null || exit 1
: >/dev/shm/\$name.\$UTOFU_RANK
: >here.\$UTOFU_RANK
until [ "\$(ls here.* | wc -l)" = "\$UTOFU_SIZE" ]; do sleep 0.01; done
echo "\$UTOFU_NODE: \$(ls /dev/shm/\$name.* | wc -l) files, \$(ipcs -m | grep -c '^0x') segments, \$(pwd)"
: >there.\$UTOFU_RANK
until [ "\$(ls there.* | wc -l)" = "\$UTOFU_SIZE" ]; do sleep 0.01; done
ipcs -m | awk -v me=\$\$ '/^0x/ { print \$2 }' | while read -r id; do ipcrm -m "\$id" 2>/dev/null; done
exit 0 # another process of the node may have removed one
END
chmod 755 "$folder/share" "$folder"

# counts NODE FILES, and as many segments where these are nobody else's
counts() {
    grep -q "^$1: $2 files, $3 segments, $folder$" "$folder/out" || fail "node $1: not $2 files and $3 segments"
}
start() { # what utofurun gets
    rm -f "$folder"/here.* "$folder"/there.*
    timeout 60 "$@" >"$folder/out" 2>"$folder/err"
}

type ipcmk >/dev/null 2>&1 || { echo 'skipped: no ipcmk'; exit 77; }
unshare -m -i true 2>/dev/null || unshare -U -m -i true 2>/dev/null || { echo 'skipped: no namespaces'; exit 77; }

start "$run" -n 3 --nodes 2 "$folder/share" || fail 'it fails'
counts 0 2 2
counts 1 1 1
[ -s "$folder/err" ] && fail 'it says something'
[ -e "/dev/shm/utofu-nodes.$$.0" ] && fail 'the file of a node is on the host'

# in one namespace, all of them: in one of this test, as segments of others would count
start unshare -m -i sh -c 'exec "$@"' sh "$run" -n 3 --nodes 2 --share-ipc "$folder/share" || fail 'it fails'
counts 0 3 3
counts 1 3 3
rm -f "/dev/shm/utofu-nodes.$$".*

# the library reaches processes of another node
start "$run" -n 4 --nodes 2 "$info" --check
grep -q '^FAIL' "$folder/out" && fail 'utofu-info --check fails on two nodes'

# where the user may not: no namespace is left for the processes of this test
start unshare -U -r sh -c 'echo 0 >/proc/sys/user/max_ipc_namespaces && exec "$@"' sh "$run" -n 2 --nodes 2 true ||
    fail 'it fails without namespaces'
[ "$(grep -c 'the nodes share System V IPC and /dev/shm, as there are no namespaces' "$folder/err")" = 1 ] ||
    fail 'no line, or several, say that there are no namespaces'
[ $failed = 0 ] && echo ok
exit $failed
