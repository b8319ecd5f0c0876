# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A Debian of its own in a folder: debootstrap makes it once, from where apt of this machine takes its packages
# (scripts/slurm-hosts.d/make-system), and each test changes a copy. Sourced by the tests beside it.

failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    tail -60 "$work/out" | sed 's/^/    /'
}
skip() {
    echo "skipped: $*"
    exit 77
}
says() {
    grep -qE -- "$1" "$work/out" || fail "nothing matches '$1'"
}

# enter_own_root ARGUMENT...: starts the test again, with these arguments, in namespaces of its own, which take its mounts
# and processes with them
enter_own_root() {
    if [ -z "${UT_OWN_ROOT-}" ]; then
        [ "$(id -u)" = 0 ] || skip 'only root may make a root folder'
        command -v debootstrap >/dev/null || skip 'debootstrap is not installed'
        unshare -mpf true 2>/dev/null || skip 'no mount and process namespaces here'
        UT_OWN_ROOT=1 exec unshare -mpf --kill-child "$(readlink -f "$0")" "$@"
    fi
    work=$(mktemp -d)
    root=$work/root
    trap leave_own_root EXIT
    # a mount of its own: "ip netns exec" changes how / is mounted (iproute2, lib/namespace.c, netns_switch())
    mkdir "$root" && mount --bind "$root" "$root" || skip 'the root folder cannot be mounted'
}

leave_own_root() {
    while umount -R "$root" 2>/dev/null; do :; done # the overlay with what is mounted in it, and the mount of its own
    rm -rf --one-file-system "$work"
}

# in_root USER COMMAND...
in_root() {
    local user=$1
    shift
    chroot "$root" su - "$user" -c "$(printf '%q ' "$@")" </dev/null
}

# install_in_root PACKAGE...
install_in_root() {
    in_root root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y "$@"
}

fill_own_root() { # SOURCE SUITE PACKAGE...: sets $system, the bare system
    local source=$1 suite=$2
    local cache=${SLURM_HOSTS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/utofu-verbs/slurm-hosts}
    shift 2
    system=$("$source/scripts/slurm-hosts.d/make-system" "$cache" "$suite" bare) || return
    # the system in the cache does not change: the changes are in $work
    mkdir "$work/changes" "$work/workdir"
    mount -t overlay -o "lowerdir=$system,upperdir=$work/changes,workdir=$work/workdir" overlay "$root" ||
        cp -a "$system/." "$root/" || return
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" &&
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || return
    in_root root apt-get update -q || return
    install_in_root --no-install-recommends sudo git "$@" || return
    in_root root useradd -m -s /bin/bash runner
    echo 'runner ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/runner"
    mkdir "$root/src"
    (cd "$source" && scripts/source-files | tar -c --null -T - | tar -x --no-same-owner -C "$root/src")
    in_root root chown -R runner: /src
    # what the tag of a release would be; root clones it, too
    in_root root git config --system --add safe.directory '*'
    # shellcheck disable=SC2016 # for the shell there
    in_root runner sh -c 'cd /src && git init -q && git add -A && git -c user.name=t -c user.email=t@invalid commit -qm t &&
        git tag "v$(sed -n "s/^  version: .\([0-9.]*\).*/\1/p" meson.build)"'
}

# make_own_root SOURCE SUITE PACKAGE...: a system with these packages, the user runner, who may use sudo, and the sources
# in /src, committed, and tagged as a release
make_own_root() {
    fill_own_root "$@" >"$work/out" 2>&1 || { tail -20 "$work/out"; skip 'a Debian of its own cannot be made here'; }
}
