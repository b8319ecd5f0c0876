#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The lines of docs/guide/start.md, word for word: after "meson install" programs start, and utofu-info
# --check reports whether they load this build. Installs to /usr/local, which is an empty file system
# in a private mount namespace, as is /etc; needs root.
#
# usage: run_loader_test.sh BUILD SOURCE PREFIX
build=$1 source=$2 prefix=$3
skip() {
    echo "skipped: $*"
    exit 77
}
[ "$prefix" = /usr/local ] || skip "the prefix is $prefix"
if [ -z "$UT_LOADER_TEST_INSIDE" ]; then
    [ "$(id -u)" = 0 ] || skip 'only root may mount'
    unshare -m true 2>/dev/null || skip 'no mount namespaces here'
    UT_LOADER_TEST_INSIDE=1 exec unshare -m "$0" "$@"
fi
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $*"
    sed 's/^/    /' "$work/out"
}
# succeeds NAME PATTERN command...: status 0, and the output, as one line, matches
succeeds() {
    local name=$1 pattern=$2
    shift 2
    "$@" >"$work/out" 2>&1 </dev/null || fail "$name: status $?"
    tr -s '\n ' ' ' <"$work/out" | grep -qE -- "$pattern" || [ -z "$pattern" ] ||
        fail "$name: nothing matches '$pattern'"
}

# mpirun LINE: as bash -c. If mpirun's PMIx server has lost a process (tests/harness/openmpi), a
# second start counts, as this test is about the page.
under_mpirun() {
    bash -c "$1" && return
    grep -q 'PMIx server of this node has not answered' "$work/out" || return
    echo 'note: mpirun fell silent and was started again'
    bash -c "$1"
}

unset "${!UTOFU_@}" LD_LIBRARY_PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/empty" "$work/etc" "$work/prog"
meson=$(command -v meson)
case $meson in /usr/local/*) skip "meson is in /usr/local" ;; esac
cp -a /etc/. "$work/etc"
if ! mount -t tmpfs none /usr/local 2>"$work/out" || ! mount --bind "$work/etc" /etc; then
    skip "cannot mount: $(cat "$work/out")"
fi
ldconfig
export PATH=/usr/local/bin:$PATH

check=("$build/tools/utofu-info" --check)
succeeds not_installed 'note library: the runtime linker does not find libtofucom.so.1' "${check[@]}"
meson install -C "$build" --no-rebuild --quiet >"$work/out" 2>&1 || fail 'meson install'
grep -q LD_LIBRARY_PATH "$work/out" && fail 'ldconfig was run, and yet there is a hint'
succeeds found 'ok library: /usr/local/lib/.*libtofucom.so.1.*, of this build' utofu-info --check

cat >"$work/prog/prog.c" <<'END'
#include <stdio.h>
#include <utofu.h>
int main(void)
{
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id;
    if (utofu_create_vcq(0, 0, &vcq) != UTOFU_SUCCESS || utofu_query_vcq_id(vcq, &id) != UTOFU_SUCCESS)
        return 1;
    puts("it has a VCQ");
    return utofu_free_vcq(vcq) != UTOFU_SUCCESS;
}
END
cd "$work/prog" || exit 1
# every line of the block except comments; mpirun must accept root and few cores
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
page=$source/docs/guide/start.md
line() { sed -n '/^## Compile/,/^## Test/s/^\('"$1"' [^#]*[^# ]\) *\(#.*\)\{0,1\}$/\1/p' "$page" | head -1; }
for word in mpicc mpirun utofurun 'mpirun -n 2 utofu-info'; do
    [ -n "$(line "$word")" ] || fail "$page has no line '$word'"
done
if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
    succeeds mpicc '' bash -c "$(line mpicc)"
    succeeds mpirun 'it has a VCQ' under_mpirun "$(line mpirun)"
    succeeds check_in_job 'nothing would keep' under_mpirun "$(line 'mpirun -n 2 utofu-info')"
    rm -f a.out
else
    echo 'not tried: there is no MPI'
fi
succeeds cc '' bash -c "$(sed -n 's/^mpicc.*# or: //p' "$page")"
succeeds utofurun 'it has a VCQ' bash -c "$(line utofurun)"
succeeds readme_program 'put has written' "$source/tests/install/check_readme.py" "$source"

# bad twins: another build, another file, a linker without the folder
lib=$(ls /usr/local/lib/*/libtofucom.so.1.*.* /usr/local/lib/libtofucom.so.1.*.* 2>/dev/null | head -1)
cp "$lib" "$work/lib"
sed -i 's/"name":"utofu-verbs","version":"[0-9]/"name":"utofu-verbs","version":"9/' "$lib"
succeeds other_build 'note library: programs get .*libtofucom.so.1[.0-9]*, which is build 9' utofu-info --check
sed -i 's/"name":"utofu-verbs"/"name":"utofu-werbs"/' "$lib"
succeeds other_library 'note library: programs get .*libtofucom.so.1[.0-9]*, which does not say' utofu-info --check
cp "$work/lib" "$lib"
rm /etc/ld.so.cache
succeeds no_cache 'note library: the runtime linker does not find libtofucom.so.1' utofu-info --check
succeeds no_cache_remedy '(ldconfig|LD_LIBRARY_PATH=/usr/local/lib)' utofu-info --check
succeeds by_path 'ok library: ' env LD_LIBRARY_PATH="$(dirname "$lib")" utofu-info --check
./a.out >"$work/out" 2>&1 && fail 'a.out starts without the cache: this test shows nothing'
# it writes to the standard error of its parent, because Meson discards its own
setpriv --reuid=65534 --regid=65534 --clear-groups bash -c 'sh -s -- "$1"; exit $?' bash \
    "$(dirname "$lib")" <"$source/scripts/after-install" >"$work/out" 2>&1 || fail 'after-install of an ordinary user'
grep -q "export LD_LIBRARY_PATH=$(dirname "$lib")" "$work/out" || fail 'after-install says what to do'
succeeds after_install '' "$source/scripts/after-install" "$(dirname "$lib")"
succeeds starts_again 'it has a VCQ' ./a.out
ldconfig_reads=$(cat /etc/ld.so.conf)
: >/etc/ld.so.conf
succeeds hint 'LD_LIBRARY_PATH=/usr/local/lib.*/etc/ld.so.conf.d' meson install -C "$build" --no-rebuild --quiet
echo "$ldconfig_reads" >/etc/ld.so.conf
cd /
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
