#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh SOURCES MANUAL: utofu-conform needs C99 and the manual's 65 functions, nothing else. Compiles it against a
# header that has only those, and links it with a library that has only those. A source that calls another function of
# ours, or that uses an extension of GNU C, must not get through.
set -eu
sources=$1 manual=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
compiler=${CLANG:-clang}
if ! command -v "$compiler" > /dev/null; then
    compiler=cc
fi
strict="-std=c99 -pedantic -Wall -Wextra -Werror"

python3 - "$manual/utofu.h" > "$dir/stub.c" << 'END'
import re
import sys

text = re.sub(r'/\*.*?\*/', '', open(sys.argv[1], encoding='utf-8').read(), flags=re.S)
functions = re.findall(r'^((?:int|void) utofu_\w+\([^;]*\));', text, flags=re.M)
assert len(functions) == 65, len(functions)
print('#include <utofu.h>')
for function in functions:
    print(function, '{}' if function.startswith('void') else '{ return UTOFU_ERR_NOT_SUPPORTED; }')
END
"$compiler" -std=c99 -w -fPIC -shared -I"$manual" -o "$dir/libtofucom.so" "$dir/stub.c"

build() { # CFLAGS MPI: all sources, with what the Makefile has
    cp "$sources"/*.c "$sources"/*.h "$sources"/Makefile "$dir"
    rm -f "$dir/stub.c"
    make -s -C "$dir" CC="$compiler" CFLAGS="$1 -I$manual" LDFLAGS="-L$dir" "$2" utofu-conform
}
build "$strict" MPI=
if nm -u "$dir/utofu-conform" | grep -E ' (ut|vp|sp|fp|prov)_'; then
    echo "compile.sh: it uses functions that are not of uTofu" >&2
    exit 1
fi
LD_LIBRARY_PATH=$dir "$dir/utofu-conform" --list > "$dir/list"
echo "$(wc -l < "$dir/list") cases, compiled by $compiler"

# The bad twins: a function of the extension, and a statement expression
refused() { # NAME TEXT
    printf '#include <utofu.h>\n%s\n' "$2" > "$dir/twin_$1.c"
    if make -s -C "$dir" CC="$compiler" CFLAGS="$strict -I$manual" LDFLAGS="-L$dir" utofu-conform > "$dir/log" 2>&1; then
        echo "compile.sh: $1 got through" >&2
        exit 1
    fi
    rm "$dir/twin_$1.c"
}
refused extension 'int twin(void); int twin(void) { return utofu_ext_version(); }'
refused gnu 'int twin(void); int twin(void) { return ({ int x = 1; x; }); }'
