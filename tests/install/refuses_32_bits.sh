#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# refuses_32_bits.sh SOURCE MESON...: configuring for a 32-bit machine, or compiling a program for
# one with utofu.h, fails with one sentence that there is no such library, and the reason. Exit
# status 77 where the compiler has no -m32.
set -u

source=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
why='uTofu is for 64-bit machines only: STADDs hold 64-bit addresses, and words of 8 bytes are read, written and changed in one piece (8-byte atomic operations)'

echo 'int main(void) { return 0; }' >"$folder/empty.c"
gcc -m32 -E "$folder/empty.c" -o /dev/null 2>/dev/null || { echo 'skipped: gcc has no -m32'; exit 77; }

echo '#include <utofu.h>' >"$folder/program.c"
if gcc -m32 -I"$source/include" -E "$folder/program.c" -o /dev/null 2>"$folder/out"; then
    echo 'FAILED: utofu.h is taken for 32 bits'
    exit 1
fi
[ "$(grep -cF "#error \"$why\"" "$folder/out")" = 1 ] ||
    { echo 'FAILED: utofu.h does not say why'; cat "$folder/out"; exit 1; }
gcc -I"$source/include" -fsyntax-only "$folder/program.c" || { echo 'FAILED: nor for 64 bits'; exit 1; }
echo 'ok: utofu.h'

# only compiled, so that no 32-bit library is needed
cat >"$folder/x86.cross" <<'END'
[binaries]
c = ['gcc', '-m32']
ar = 'ar'
[properties]
needs_exe_wrapper = true
[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
END
if "$@" setup "$folder/build" "$source" --cross-file "$folder/x86.cross" >"$folder/out" 2>&1; then
    echo 'FAILED: a build for x86 is configured'
    exit 1
fi
[ "$(grep -cF "ERROR: Problem encountered: $why" "$folder/out")" = 1 ] ||
    { echo 'FAILED: meson does not say why'; tail "$folder/out"; exit 1; }
echo 'ok: meson'
