#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a Debian that debootstrap has just made the packages build with what debian/control names, are installed by apt with
# what they recommend, and are enough: debian/tests/use as an ordinary user (pkg-config, CMake, utofurun, both MPI
# libraries, utofu-test), and the same program under Slurm (pmix, pmi2), and by hand over two network namespaces, where
# libfabric is used.
#
# usage: run_bare_system_test.sh SOURCE [SUITE-OF-DEBIAN]     trixie, for instance
set -u
source=$1 suite=${2:-bookworm}
# shellcheck source=tests/install/own_root.sh
. "$(dirname "$(readlink -f "$0")")/own_root.sh"
enter_own_root "$@"
make_own_root "$source" "$suite" dpkg-dev

# step NAME USER COMMAND...: the test ends where it fails
step() {
    local name=$1
    shift
    in_root "$@" >"$work/out" 2>&1 || { fail "$name"; exit 1; }
    echo "ok: $name"
}

step 'what the build needs' root sh -c 'cd /src && DEBIAN_FRONTEND=noninteractive apt-get build-dep -q -y --no-install-recommends .'
step 'the packages build' runner env DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)" /src/scripts/build-deb /var/tmp/debs
# shellcheck disable=SC2016 # for the shell there
step 'the packages are installed' root sh -c 'DEBIAN_FRONTEND=noninteractive apt-get install -q -y /var/tmp/debs/*.deb \
    cmake gcc libc6-dev libmpich-dev libopenmpi-dev make mpich openmpi-bin pkg-config iproute2'
compgen -G "$root/usr/lib/*/libfabric.so.1" >/dev/null || fail 'libfabric is not installed with them'
step 'debian/tests/use' runner env AUTOPKGTEST_TMP=/var/tmp/use sh -c 'mkdir /var/tmp/use && sh -x /src/debian/tests/use'
says '^22 runs, 0 failed|^5 runs, 0 failed'
step 'two network namespaces' root /src/scripts/netns-hosts -- /var/tmp/use/pingpong
says '^\[host 1\] rank 1: 1000 rounds'
step 'what they use' root /src/scripts/netns-hosts -- utofu-info
says 'ofi to other hosts'

install_in_root --no-install-recommends slurm-wlm munge >"$work/out" 2>&1 || { echo 'not tried: Slurm cannot be installed'; [ $failures = 0 ]; exit; }
cat >"$root/var/tmp/slurm.sh" <<'END'
#!/bin/bash
. /src/tests/harness/slurm.sh
at=$(mktemp -d)
start_slurm "$at" || { cat "$at"/*.log; exit 1; }
status=0
for mpi in pmix pmi2; do
    echo "== srun --mpi=$mpi"
    srun --mpi=$mpi -n 2 --overcommit /var/tmp/use/pingpong || status=1
done
stop_slurm
exit $status
END
step 'Slurm' root env PATH=/usr/sbin:/usr/bin:/sbin:/bin bash /var/tmp/slurm.sh
[ "$(grep -c 'rank 1: 1000 rounds' "$work/out")" = 2 ] || fail 'not both ways of srun'
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
