#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# launched_mpi_test.sh UTOFURUN CC...: utofurun says of a program that is linked with an MPI library that mpirun is
# meant, once, and starts it; of other programs and scripts it says nothing. No MPI is needed: the library here only
# has its name.

run=$(realpath "$1")
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0
checks=0
unset "${!UTOFU_@}" # an outer job's variables must not count

# shellcheck source=tests/harness/checks.sh
. "$(dirname "$(realpath "$0")")/../harness/checks.sh"

cd "$folder" || exit 1
echo 'int nothing(void); int nothing(void) { return 0; }' >lib.c
echo 'int nothing(void); int main(void) { return nothing(); }' >main.c
for name in libmpi.so.40 libmpich.so.12 libmpifort.so.12 libother.so.1; do
    "$@" -shared -fPIC -o "$name" -Wl,-soname,"$name" lib.c || exit 1
    "$@" -o "with_${name%%.*}" main.c "./$name" -Wl,-rpath,"$folder" || exit 1
done
for name in libmpi libmpich libmpifort; do
    check "$name" 0 "^utofurun: warning: ./with_$name is linked with $name.so.[0-9]*: use mpirun" 1 "$run" -n 2 "./with_$name"
done
PATH=$folder:$PATH check by_path 0 'is linked with libmpi.so.40: use mpirun' 1 "$run" -n 1 with_libmpi
check other_library 0 'use mpirun' 0 "$run" -n 2 ./with_libother
printf '#!/bin/sh\nexec ./with_libmpi\n' >script
chmod +x script
check script 0 'use mpirun' 0 "$run" -n 1 ./script
check not_there 127 'use mpirun' 0 "$run" -n 1 ./nowhere
# cut off anywhere, the file is read without harm; it may still name the library, and cannot be run
size=$(stat -c %s with_libmpi)
for part in 1 20 64 200 600 1000 $((size / 4)) $((size / 2)); do
    head -c "$part" with_libmpi >part
    chmod +x part
    timeout 20 "$run" -n 1 ./part >part.out 2>&1
    rc=$?
    checks=$((checks + 1))
    if [ "$rc" = 0 ] || [ "$rc" = 124 ] || ! grep -q '^utofurun: ' part.out; then
        fail "cut at $part: status $rc: $(cat part.out)"
    fi
done
echo "launched_mpi: $checks checks, $failures failures"
exit $((failures > 0))
