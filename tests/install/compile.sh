#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# compile.sh HOW SOURCE: the sources of the library and of its layers compile without a warning HOW says:
#   native   by the host's gcc, with -O3 -march=native
#   musl     against musl, by musl-gcc; a program of one process runs
#   aarch64, riscv64   by Debian's cross compilers; programs of one process run under qemu-user
# Exit status 77 where the compiler is not installed.
set -u

how=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$source" || exit 1

need() {
    command -v "$1" >/dev/null || { echo "skipped: $1 is not installed (package $2)"; exit 77; }
}

optimize=-O1 emulator='' ofi=() headers=(linux asm-generic infiniband rdma)
case $how in
native) compiler=gcc optimize='-O3 -march=native' headers=() ;;
musl) compiler=musl-gcc headers+=(asm); need musl-gcc musl-tools ;;
aarch64 | riscv64)
    compiler=$how-linux-gnu-gcc headers=(infiniband rdma)
    need "$compiler" "gcc-$how-linux-gnu"
    emulator=qemu-$how
    ;;
*) echo "compile.sh: there is no way '$how'" >&2; exit 2 ;;
esac

# Headers that are the same for all processors and C libraries, and no other ones of the host.
mkdir "$folder/include"
for name in "${headers[@]}"; do
    at=/usr/include/$name
    [ -e "$at" ] || at=$(echo /usr/include/*-linux-gnu/"$name")
    [ -e "$at" ] || { echo "skipped: there is no /usr/include/$name (libibverbs-dev, librdmacm-dev, linux-libc-dev)"; exit 77; }
    ln -s "$at" "$folder/include/$name"
done

# musl has no lists; distributions with musl have the BSD header in a package of its own.
if [ "$how" = musl ]; then
    mkdir "$folder/include/sys"
    ln -s "$(echo /usr/include/*-linux-gnu/sys/queue.h)" "$folder/include/sys/queue.h"
fi

# Without files that need packages for that processor or C library: PMIx, some of jtofu (PMIx), most of prdma (MPI).
listed=$(find src provider/common provider/shm provider/verbs provider/registry.c layers/common layers/acp layers/lapi \
    layers/jtofu/{kvs,envvars,own_map,jobs,map,query,redirect}.c layers/prdma/{engine,rounds,settings}.c \
    -name '*.c') || { echo "FAILED: a file of the list above is not there"; exit 1; }
mapfile -t files < <(grep -v pmix.c <<<"$listed")
[ "${#files[@]}" -gt 200 ] || { echo "FAILED: only ${#files[@]} sources"; exit 1; }
if [ -e /usr/include/rdma/fabric.h ]; then # libfabric is only loaded, not linked
    files+=(provider/ofi/*.c)
    ofi=(-DPROV_WITH_OFI)
fi
flags=("${ofi[@]}" -std=gnu11 -D_GNU_SOURCE -DUT_DATA_DIR='"/usr/share/utofu-verbs"' -Wall -Wextra -Werror
    -Iinclude -Isrc -Iprovider -idirafter "$folder/include")
if [ "$how" = native ]; then # some warnings come from optimizing
    for file in "${files[@]}"; do
        # shellcheck disable=SC2086
        "$compiler" $optimize "${flags[@]}" -c "$file" -o "$folder/object" || { echo "FAILED: $file"; exit 1; }
    done
else
    "$compiler" $optimize "${flags[@]}" -fsyntax-only "${files[@]}" || { echo "FAILED: a source does not compile, $how"; exit 1; }
fi
echo "ok: ${#files[@]} sources compile, $how"

# The programs contain the code that they need, without the rest of the library.
[ "$how" != native ] || exit 0
if [ -n "$emulator" ] && ! command -v "$emulator" >/dev/null; then
    echo "not run: $emulator is not installed (package qemu-user)"
    exit 0
fi
for program in provider/shm_ring provider/at_once provider/bounce; do
    # shellcheck disable=SC2086
    "$compiler" $optimize "${flags[@]}" -w -static -pthread "tests/$program.c" src/util/fd.c -o "$folder/program" ||
        { echo "FAILED: tests/$program.c does not compile"; exit 1; }
    $emulator "$folder/program"
    status=$?
    [ $status = 0 ] || [ $status = 77 ] || { echo "FAILED: $program, $how: status $status"; exit 1; }
    echo "ok: $program runs, $how"
done
