#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The image of packaging/container/Containerfile is built by buildah, in a Debian of its own, on a base that debootstrap
# has made, as registries of images cannot be reached everywhere. With srun --mpi=pmix of a Slurm of two hosts
# (scripts/slurm-hosts) four processes run inside, which without the image's libpmix do not find each other.
#
# usage: run_image_test.sh SOURCE
set -u
source=$1
# shellcheck source=tests/install/own_root.sh
. "$(dirname "$(readlink -f "$0")")/own_root.sh"
enter_own_root "$@"
make_own_root "$source" bookworm buildah

step() { # NAME COMMAND...: the test ends where it fails
    local name=$1
    shift
    "$@" >"$work/out" 2>&1 || { fail "$name"; exit 1; }
    echo "ok: $name"
}
buildah() { in_root root env BUILDAH_ISOLATION=chroot buildah "$@"; }

# buildah's layers are overlays, which cannot be on an overlay
mkdir -p "$work/containers" "$root/var/lib/containers"
mount --bind "$work/containers" "$root/var/lib/containers"
# shellcheck disable=SC2154 # of own_root.sh
tar -C "$system" -c . >"$root/var/tmp/base.tar"
make_base() {
    local container
    container=$(buildah from scratch) && buildah add -q "$container" /var/tmp/base.tar / &&
        buildah commit -q "$container" base
}
step 'a base' make_base
rm "$root/var/tmp/base.tar"
step 'the image' buildah build --network host --build-arg BASE=localhost/base \
    -f /src/packaging/container/Containerfile -t utofu-verbs /src
container=$(buildah from utofu-verbs) && image=$root$(buildah mount "$container") &&
    [ -x "$image/usr/bin/utofu-info" ] || { fail 'utofu-info is not in the image'; exit 1; }

# As Apptainer: the namespaces of processes and networks, and the devices, are the host's.
cat >"$image/enter" <<'END_OF_SCRIPT'
#!/bin/bash
image=$(dirname "$0")
for folder in proc sys dev tmp; do mount --rbind "/$folder" "$image/$folder"; done
if [ "$1" = without ]; then
    for file in "$image"/usr/lib/*/libpmix.so.2; do mount --bind /dev/null "$file"; done
    shift
fi
cd /
exec chroot "$image" "$@"
END_OF_SCRIPT
inside() { # COMMAND...
    (cd "$source" && UTOFU_JOB_TIMEOUT=60 scripts/slurm-hosts --share "$image" -- srun --mpi=pmix -N 2 -n 4 \
        unshare --mount --propagation private bash "$image/enter" "$@")
}
step 'utofu-info --check inside' inside utofu-info --check
step 'utofu-perf inside' inside utofu-perf --quiet -s 8 -n 100 put-lat
inside without utofu-perf --quiet -s 8 -n 100 put-lat >"$work/out" 2>&1 && fail 'passes without libpmix'
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
