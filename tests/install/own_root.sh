# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A Debian of its own in a folder, made by debootstrap from where apt of this machine takes its packages. Sourced by the
# tests beside it.

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
    local folder
    for folder in run/netns proc dev sys; do umount -R "$root/$folder" 2>/dev/null; done
    umount "$root" 2>/dev/null
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

fill_own_root() { # SOURCE SUITE MIRROR PACKAGE...
    local source=$1 suite=$2 mirror=$3
    shift 3
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" || return
    rm -f "$root/etc/apt/sources.list" # of debootstrap: each source would be there twice
    cp -a /etc/apt/. "$root/etc/apt/"
    if [ "$suite" != "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" ]; then
        rm -f "$root"/etc/apt/sources.list.d/* "$root"/etc/apt/preferences.d/*
        echo "deb $mirror $suite main" >"$root/etc/apt/sources.list"
    fi
    cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null
    cp -a /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/" 2>/dev/null
    echo "127.0.0.1 localhost $(hostname)" >"$root/etc/hosts"
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" || return
    in_root root update-ca-certificates
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
    local source=$1 suite=$2 mirror own
    shift 2
    own=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    # shellcheck disable=SC2016 # apt replaces them
    mirror=$(apt-get indextargets --format '$(REPO_URI) $(CREATED_BY) $(CODENAME)' | sed -n "s/ Packages $own\$//p" | head -1)
    [ -n "$mirror" ] || skip "apt of this machine has no archive of $own"
    fill_own_root "$source" "$suite" "$mirror" "$@" >"$work/out" 2>&1 ||
        { tail -20 "$work/out"; skip 'a Debian of its own cannot be made here'; }
}
