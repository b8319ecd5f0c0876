#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/quickstart builds no tests, shows what ninja prints, and for two hosts installs ip(8); scripts/install-deps
# installs the packages that it is given beside its own; scripts/setup-utofu refuses what it does not know. With commands
# in the place of apt, meson and ninja.
#
# usage: quickstart_test.sh SOURCE
set -u
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out" "$work/log"
}

# stands_for NAME LINE...: a command that logs its arguments, and then does that
mkdir -p "$work/bin" "$work/tree/scripts"
stands_for() {
    local name=$1
    shift
    printf '%s\n' '#!/bin/sh' "echo \"${name##*/} \$*\" >>'$work/log'" "$@" >"$work/$name"
    chmod +x "$work/$name"
}
says() { # FILE PATTERN
    grep -qE -- "$2" "$work/$1" || fail "nothing in $1 matches '$2'"
}

cp "$source/scripts/quickstart" "$work/tree/scripts"
stands_for tree/scripts/install-deps
stands_for tree/scripts/netns-hosts 'echo "[host 0] provider  shm"'
# shellcheck disable=SC2016 # for the shell of the command
stands_for bin/meson 'mkdir -p "$2/tools" && touch "$2/build.ninja"' 'ln -s /bin/true "$2/tools/utofurun"'
stands_for bin/ninja 'echo "[7/9] Compiling C object one.c.o"'
for hosts in 1 2; do
    rm -rf "$work/tree/build" "$work/log"
    PATH=$work/bin:$PATH "$work/tree/scripts/quickstart" --hosts $hosts >"$work/out" 2>&1 || fail "quickstart --hosts $hosts"
    says log '^meson setup build -Dtests=disabled$'
    says out '^\[7/9\] Compiling'
    [ $hosts = 1 ] && says log '^install-deps --build-only$'
    [ $hosts = 2 ] && says log '^install-deps --build-only iproute2$'
done

stands_for bin/dpkg-query
stands_for bin/apt-cache 'echo "  Candidate: 1"'
stands_for bin/apt-get
stands_for bin/env 'exec /usr/bin/env "$@"'
stands_for bin/sudo 'exec "$@"'
rm -f "$work/log"
PATH=$work/bin:$PATH bash "$source/scripts/install-deps" --build-only one two >"$work/out" 2>&1 || fail 'install-deps'
says log '^apt-get install .* meson .*libfabric-dev .*one two$'
grep -q libcriterion "$work/log" && fail 'install-deps --build-only installs what tests need'
bash "$source/scripts/install-deps" --one >"$work/out" 2>&1 && fail 'install-deps takes any option'

for wrong in --nothing '--mpi lam' '--provider tcp' '--prefix here' --env; do
    # shellcheck disable=SC2086 # words
    bash "$source/scripts/setup-utofu" $wrong >"$work/out" 2>&1
    [ $? = 2 ] || fail "setup-utofu $wrong: not wrong usage"
done

# setup-utofu: an ordinary user without sudo is refused before anything is built, and not where DIR may be written.
mkdir "$work/few"
for tool in bash dirname readlink id env; do ln -s "$(command -v "$tool")" "$work/few/$tool"; done
cp "$source/scripts/setup-utofu" "$work/tree/scripts"
stands_for tree/scripts/install-deps 'exit 3' # where it goes on
ordinary=()
[ "$(id -u)" != 0 ] || ordinary=(setpriv --reuid=65534 --regid=65534 --clear-groups)
chmod 755 "$work" "$work/tree" "$work/tree/scripts" "$work/few"
: >"$work/log" && chmod 666 "$work/log"
if [ "$(id -u)" = 0 ] || [ ! -w /usr/local ]; then
    for prefix in /usr/local /tmp/utofu; do
        "${ordinary[@]}" env PATH="$work/few" bash "$work/tree/scripts/setup-utofu" --prefix $prefix >"$work/out" 2>&1
        case $?:$prefix in
        1:/usr/local) says out 'may not write to /usr/local, and there is no sudo: .*--prefix' ;;
        *:/usr/local) fail 'setup-utofu without sudo goes on' ;;
        *) grep -q 'may not write' "$work/out" && fail "setup-utofu --prefix $prefix is refused" ;;
        esac
    done
fi
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
