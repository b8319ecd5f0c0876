#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Uses the files installed into a root folder, and none of the build: compiles examples with
# pkg-config, make and CMake, runs them, asks the tools, reads the manual pages. Sourced by the tests
# beside it.

failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
}

skip() {
    echo "skipped: $*"
    exit 77
}

# uses_root PROGRAM: it runs with the library of the root folder and no other
uses_root() {
    ldd "$1" | grep -q "libtofucom.so.1 => ${LD_LIBRARY_PATH%%:*}/" ||
        fail "$1 does not use the installed library"
}

# use_first_lines EXAMPLES WORK CC...: each example is compiled as its opening comment says, and run
# with the first line below that. mpicc stands for each that is installed.
use_first_lines() {
    local work=$2 source name line start mpi
    cp -r "$1" "$work"
    shift 2
    cd "$work" || return
    for source in *.c; do
        name=${source%.c}
        case $name in meet | circuit) continue ;; esac
        line=$(sed -n "s/^ \\*     \\(\\(mpi\\)\\{0,1\\}cc -o $name $source.*\\)/\\1/p" "$source")
        start=$(sed -n "s|^ \\*     \\(utofurun -n .* \\./$name.*\\)|\\1|p" "$source")
        case $line in
        'cc '*)
            [ -n "$start" ] && grep -q "^ \\*     mpirun -n .* \\./$name" "$source" ||
                fail "$source does not say how to start it"
            eval "\"\$@\" -std=gnu11 -Wall -Wextra -Werror ${line#cc }" && uses_root "./$name" &&
                eval "${start/utofurun/utofurun --timeout 60}" || fail "$source: $line; $start"
            ;;
        'mpicc '*)
            for mpi in openmpi mpich; do
                command -v mpicc.$mpi >/dev/null || continue
                case "$*" in *-fsanitize*) continue ;; esac # mpicc does not support a sanitizer
                eval "mpicc.$mpi -std=gnu11 -Wall -Wextra -Werror ${line#mpicc }" ||
                    fail "$source with $mpi: $line"
                case $line in *utofu*) uses_root "./$name" || fail "$source with $mpi" ;; esac
            done
            ;;
        *) fail "$source does not say how to compile it: $line" ;;
        esac
    done
    cd - >/dev/null || return
}

# use_first_lines_of_bindings EXAMPLES WORK CC...: the same in C++ and Fortran. The compilers of those languages get the
# flags of CC's sanitizer.
use_first_lines_of_bindings() {
    local work=$2 source name start word sanitize='' cc tried=0
    cp -r "$1" "$work"
    shift 2
    cc=$*
    for word; do
        case $word in -fsanitize*) sanitize=" $word" ;; esac
    done
    cd "$work" || return
    for source in *_cxx.cpp *_fortran.f90; do
        name=${source%.*}
        [ "$source" != lapi_fortran.f90 ] || continue
        case $source in
        *.cpp) command -v c++ >/dev/null || { echo "not tried: $source: c++ is not installed"; continue; } ;;
        *) command -v gfortran >/dev/null || { echo "not tried: $source: gfortran is not installed"; continue; } ;;
        esac
        sed -n "s/^\( \*\|!\)     \(cc\|c++\|gfortran\) \(.*\)/\2 \3/p" "$source" |
            sed "s|^cc|$cc|; s|^c++|c++ -Wall -Wextra -Werror$sanitize|; s|^gfortran|gfortran -Wall -Wextra$sanitize|" >"$work.lines"
        start=$(sed -n "s/^\( \*\|!\)     \(utofurun -n .* \.\/$name.*\)/\2/p" "$source")
        [ -s "$work.lines" ] && [ -n "$start" ] && grep -q "     mpirun -n .* \./$name" "$source" ||
            fail "$source does not say how to compile and start it"
        bash -e "$work.lines" && uses_root "./$name" && eval "${start/utofurun/utofurun --timeout 60}" ||
            fail "$source: $(cat "$work.lines"); $start"
        tried=$((tried + 1))
    done
    echo "$tried examples in C++ and Fortran"
    cd - >/dev/null || return
}

# use_python ROOT EXAMPLES CC...: the package, where it is installed, with the Python that it was built for
use_python() {
    local package python='' one
    package=$(dirname "$(find "$1" -path '*/utofu/__init__.py')")
    [ -f "$package/__init__.py" ] || { echo 'not tried: the Python package was not built'; return; }
    [[ "$*" != *-fsanitize=* ]] || { echo 'not tried: this Python is built without the sanitizer'; return; }
    export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=${package%/*}
    for one in /usr/bin/python3 python3; do
        [ -n "$python" ] || ! command -v $one >/dev/null || ! $one -c 'import utofu' || python=$one
    done
    [ -n "$python" ] || { fail "no Python can import $package"; return; }
    [ -f "$package/py.typed" ] && [ -f "$package/_cffi.pyi" ] || fail "the types of $package"
    "$python" -c 'import utofu; print(open("/proc/self/maps").read())' | grep -q "${LD_LIBRARY_PATH%%:*}/libtofucom" ||
        fail 'the Python package does not use the installed library'
    utofurun --timeout 60 -n 2 "$python" "$2/latency.py" --rounds 1 || fail "$2/latency.py"
}

use_make() { # EXAMPLES WORK CC...
    local work=$2 word sanitize=''
    command -v make >/dev/null || { echo 'not tried: make is not installed'; return; }
    cp -r "$1" "$work"
    shift 2
    for word; do
        case $word in -fsanitize*) sanitize=" $word" ;; esac
    done
    make -C "$work" CC="$*" CXX="c++$sanitize" FC="gfortran$sanitize" all check >"$work.out" 2>&1 || { fail "make check"; cat "$work.out"; }
    uses_root "$work/session_ring"
    make -C "$work" clean >"$work.out" 2>&1 && [ ! -e "$work/session_ring" ] || fail "make clean"
    if PKG_CONFIG_LIBDIR=/nonexistent make -C "$work" CC="$*" >"$work.out" 2>&1 ||
        ! grep -q 'pkg-config does not find utofu: set PKG_CONFIG_PATH' "$work.out"; then
        fail "make without a library does not say what is missing"
        cat "$work.out"
    fi
}

# cmake_finds WORK WHAT TEXT PREFIX REQUEST: find_package(utofu REQUEST) says TEXT
cmake_finds() {
    rm -rf "$1"
    mkdir "$1"
    cat >"$1/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.13)
project(p C)
find_package(utofu $5)
get_target_property(at utofu::tofucom IMPORTED_LOCATION)
get_target_property(include utofu::tofucom INTERFACE_INCLUDE_DIRECTORIES)
message(STATUS "found \${utofu_VERSION} at \${at} with \${include} and \${utofu_BINDIR}")
END
    cmake -S "$1" -B "$1/build" -DCMAKE_PREFIX_PATH="$4" -DCMAKE_PROJECT_INCLUDE="$cmake_lib64" >"$1/out" 2>&1
    tr -s ' \n' ' ' <"$1/out" | grep -q -- "$3" || { fail "CMake: $2"; cat "$1/out"; }
}

# use_cmake ROOT EXAMPLES WORK CC...: in the root folder, and in another place that it was moved to
use_cmake() {
    local root=$1 work=$3 config prefix moved found word flags='' compiler=''
    command -v cmake >/dev/null || { echo 'not tried: cmake is not installed'; return; }
    cp -r "$2" "$work"
    shift 3
    config=$(dirname "$(find "$root" -name utofu-config.cmake)")
    [ -d "$config" ] || { fail "utofu-config.cmake is not installed"; return; }
    prefix=$(cd "$(dirname "$(find "$root" -name utofu.h)")/.." && pwd -P)
    for word; do # a launcher such as ccache, the compiler, flags
        case $word in -*) flags="$flags $word" ;; *) compiler=$word ;; esac
    done
    # where CMake runs on Debian it does not look into lib64 (its Modules/Platform/Linux.cmake), as elsewhere
    local cmake_lib64=$work.lib64
    echo 'set_property(GLOBAL PROPERTY FIND_LIBRARY_USE_LIB64_PATHS TRUE)' >"$cmake_lib64"
    { cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_PROJECT_INCLUDE="$cmake_lib64" \
        -DCMAKE_C_COMPILER="$compiler" \
        -DCMAKE_C_FLAGS="$flags" -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON && cmake --build "$work/build" &&
        ctest --test-dir "$work/build" --output-on-failure; } >"$work.out" 2>&1 ||
        { fail "CMake"; cat "$work.out"; }
    grep -q '100% tests passed, 0 tests failed out of 9' "$work.out" || fail "CMake: not 9 tests"
    uses_root "$work/build/session_ring"

    moved=$work.moved
    cp -r "$prefix" "$moved"
    moved=$(cd "$moved" && pwd -P)
    found="found [0-9.]* at $moved/.*/libtofucom.so.[0-9.]* with $moved/include and $moved/bin"
    cmake_finds "$work.p" 'a tree that was moved' "$found" "$moved" REQUIRED
    cmake_finds "$work.p" 'a range of versions' "$found" "$moved" '0.9...1 REQUIRED'
    cmake_finds "$work.p" 'version 2' 'requested version "2"' "$moved" '2 REQUIRED'
    cmake_finds "$work.p" 'version 0.9' 'requested version "0.9"' "$moved" '0.9 REQUIRED'
    cmake_finds "$work.p" 'a component' 'has no components, and mpi' "$moved" 'REQUIRED COMPONENTS mpi'
    rm "$moved/include/utofu.h"
    cmake_finds "$work.p" 'no header' "$moved/include/utofu.h is not there" "$moved" REQUIRED
    rm -rf "$moved"
}

# use_lapi EXAMPLES LIB WORK CC...: with each of the names that configure scripts look for
use_lapi() {
    local source=$1/lapi_message.c lib=$2 work=$3 flags name
    shift 3
    [ -e "$lib/liblapi_utofu.so" ] || { echo 'not tried: the layer lapi is not installed'; return; }
    read -ra flags < <(pkg-config --cflags lapi_utofu)
    for name in lapi_utofu lapi lapi_r; do
        "$@" -std=gnu11 "${flags[@]}" -o "$work.$name" "$source" -L"$lib" "-l$name" \
            "-Wl,-rpath-link,$lib" && utofurun --timeout 60 -n 2 "$work.$name" >"$work.out" 2>&1 ||
            { fail "a program of LAPI with -l$name"; cat "$work.out"; }
    done
}

# use_jtofu LIB WORK CC...: a program that is linked with what pkg-config says
use_jtofu() {
    local lib=$1 work=$2 flags
    shift 2
    [ -e "$lib/libtofutop.so" ] || { echo 'not tried: the layer jtofu is not installed'; return; }
    cat >"$work.c" <<'END'
#include <jtofu.h>
#include <pmix_fjext.h>
int main(void)
{
    void *map;
    size_t size;
    unsigned int procs;

    return jtofu_create_mapinfo_by_envvars(&map, &size, &procs) != JTOFU_SUCCESS || procs != 2 ||
           jtofu_initialize(0, 1, map) != JTOFU_SUCCESS || jtofu_query_max_proc_per_node() != 2;
}
END
    read -ra flags < <(pkg-config --cflags --libs tofutop)
    "$@" -std=gnu11 -o "$work.program" "$work.c" "${flags[@]}" "-Wl,-rpath-link,$lib" &&
        utofurun --timeout 60 -n 2 "$work.program" >"$work.out" 2>&1 ||
        { fail "a program of jtofu"; cat "$work.out"; }
}

# use_modules ROOT WORK HERE: the module files name the folders of utofu.pc, which have what they are for. The Tcl one is
# read by the module command where it is installed, else by commands in its place.
use_modules() {
    local root=$1 work=$2 here=$3 files tcl lua name want got
    files=$(find "$root" -path '*/modulefiles/utofu-verbs' -type d)
    if [ -z "$files" ]; then # there is none for /usr
        [ -e "$root/usr/include/utofu.h" ] || fail "no module files"
        return
    fi
    tcl=$(find "$files" -type f ! -name '*.lua') lua=$(find "$files" -name '*.lua')
    : >"$work.tcl"
    command -v tclsh >/dev/null && { tclsh "$here/modules.tcl" "$tcl" >"$work.tcl" || fail "the module file for Tcl"; }
    : >"$work.lua"
    got=$(command -v lua5.4 || command -v lua5.3 || command -v lua5.1 || command -v lua)
    [ -z "$got" ] || "$got" "$here/modules.lua" "$lua" >"$work.lua" || fail "the module file for Lmod"
    for name in tcl lua; do
        [ -s "$work.$name" ] || { echo "not tried: the module file for $name, as there is no $name"; continue; }
        while read -r variable want; do
            grep -qxF "prepend $variable ${want#"$root"}" "$work.$name" ||
                { fail "module file ($name): $variable is not ${want#"$root"}"; cat "$work.$name"; }
        done <<END
PATH $(dirname "$(find "$root" -path "*/bin/utofurun" -type f)")
LD_LIBRARY_PATH $(env -u PKG_CONFIG_SYSROOT_DIR pkg-config --variable=libdir utofu)
LIBRARY_PATH $(env -u PKG_CONFIG_SYSROOT_DIR pkg-config --variable=libdir utofu)
CPATH $(env -u PKG_CONFIG_SYSROOT_DIR pkg-config --variable=includedir utofu)
PKG_CONFIG_PATH $(dirname "$(find "$root" -name utofu.pc)")
CMAKE_PREFIX_PATH $(env -u PKG_CONFIG_SYSROOT_DIR pkg-config --variable=prefix utofu)
MANPATH $(dirname "$(find "$root" -name man3 -type d)")
END
    done
    [ ! -s "$work.lua" ] || [ ! -s "$work.tcl" ] || cmp -s "$work.tcl" "$work.lua" || fail "the two module files differ"
}

# use_docs FOLDER: the files that the documents link to exist
use_docs() {
    local file link
    [ -f "$1/README.md" ] && [ -f "$1/docs/design/architecture.md" ] || fail "no README.md or docs/ in $1"
    for file in "$1"/*.md "$1"/docs/*.md "$1"/docs/*/*.md "$1"/docs/*/*/*.md; do
        while read -r link; do
            case $link in *://* | '#'*) continue ;; esac
            [ -e "$(dirname "$file")/${link%%#*}" ] || fail "$file leads to $link, which is not there"
        done < <(grep -o '](.[^)]*)' "$file" | sed 's/^](//; s/)$//')
    done
}

# use_one_line ROOT BIN WORK CC...: with the one line of the README, in an environment that knows nothing of the root
# folder, a program that is only linked with -ltofucom runs, and so does the tutorial
use_one_line() {
    local root=$1 bin=$2 work=$3 tutorial
    command -v make >/dev/null || { echo 'not tried: make is not installed'; return; }
    tutorial=$(find "$root" -path '*/utofu-verbs/tutorial' -type d)
    [ -f "$tutorial/step1.c" ] || { fail "the tutorial is not installed"; return; }
    cp -r "$tutorial" "$work"
    shift 3
    # shellcheck disable=SC2016 # the inner shell is to replace them
    env -u PKG_CONFIG_LIBDIR -u PKG_CONFIG_SYSROOT_DIR -u LD_LIBRARY_PATH PATH=/usr/bin:/bin bash -c '
        eval "$("$1/utofu-info" --env)" && cd "$2" && compile=${*:3} &&
            $compile -o by_hand step2.c tutorial.c exchange.c -ltofucom && utofurun --timeout 60 -n 2 ./by_hand &&
            make -s CC="$compile" LDFLAGS= step4 && utofurun --timeout 60 -n 4 ./step4 && man -w utofu_put' \
        one_line "$bin" "$work" "$@" >"$work.out" 2>&1 || { fail "utofu-info --env"; cat "$work.out"; }
    grep -q '1000 items of 1000 are done' "$work.out" || { fail "step 4 of the tutorial"; cat "$work.out"; }
}

# use_root ROOT EXAMPLES CC...: EXAMPLES is a folder with their sources, installed in the root; here: the folder of this
# file. With UT_BRIEFLY one example is compiled, not all in every way.
use_root() {
    local root=$1 examples=$2 pc lib bin man work page
    shift 2
    pc=$(find "$root" -name utofu.pc)
    lib=$(dirname "$(find "$root" -name 'libtofucom.so.1')")
    bin=$(dirname "$(find "$root" -path '*/bin/utofurun' -type f)")
    man=$(dirname "$(dirname "$(find "$root" -name utofu_put.3 -o -name utofu_put.3.gz)")")
    [ -f "$pc" ] && [ -d "$lib" ] && [ -d "$bin" ] && [ -d "$man" ] ||
        { fail "installed: '$pc' '$lib' '$bin' '$man'"; return; }
    work=$(mktemp -d)

    (
        # separate words: the settings of a user of an installed tree
        export PKG_CONFIG_PATH='' PKG_CONFIG_SYSROOT_DIR=$root LD_LIBRARY_PATH=$lib PATH=$bin:$PATH
        export PKG_CONFIG_LIBDIR PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
        PKG_CONFIG_LIBDIR=$(dirname "$pc")
        failures=0
        if [ -n "$UT_BRIEFLY" ]; then # the other ways are tried with the same files elsewhere: install_is_enough
            mkdir "$work/one"
            cp "$examples"/{pingpong_notice.c,meet.[ch]} "$work/one"
            use_first_lines "$work/one" "$work/lines" "$@"
            use_python "$root" "$examples" "$@"
            use_docs "$(dirname "$(dirname "$examples/.")")"
            exit $failures
        fi
        use_first_lines "$examples" "$work/lines" "$@"
        use_first_lines_of_bindings "$examples" "$work/bindings" "$@"
        use_python "$root" "$examples" "$@"
        use_make "$examples" "$work/make" "$@"
        use_cmake "$root" "$examples" "$work/cmake" "$@"
        use_lapi "$examples" "$lib" "$work/lapi" "$@"
        use_jtofu "$lib" "$work/jtofu" "$@"
        use_modules "$root" "$work/modules" "$here"
        use_one_line "$root" "$bin" "$work/one_line" "$@"
        use_docs "$(dirname "$(dirname "$examples/.")")"
        exit $failures
    ) || failures=$((failures + $?))

    UTOFU_PROVIDER=shm "$bin/utofu-info" --check >"$work/out" 2>&1 ||
        { fail "utofu-info --check"; cat "$work/out"; }
    "$bin/utofurun" -n 2 "$bin/utofu-perf" --quiet -s 8 -n 100 put-lat >"$work/out" 2>&1 ||
        { fail "utofu-perf"; cat "$work/out"; }

    # a program that only reports missing manual pages does not count as man
    if man --version 2>/dev/null | grep -q '^man '; then
        for page in utofu_put putofu_put utofu utofu-verbs utofurun utofu-info utofu-perf utofu-test utofu-trace utofu-model utofu-conform utofu-observe; do
            LC_ALL=C.UTF-8 MANWIDTH=100 man -M "$man" "$page" >"$work/$page" 2>&1 ||
                { fail "man $page"; cat "$work/$page"; }
        done
        for text in 'PARAMETERS' 'bytes' 'RETURN VALUE' 'UTOFU_ERR_BUSY' 'THREAD SAFETY' 'SEE ALSO'; do
            grep -q "$text" "$work/utofu_put" || fail "man utofu_put does not tell $text"
        done
        cmp -s "$work/utofu_put" "$work/putofu_put" || fail "man putofu_put is another page"
        grep -q '^ *UTOFU_PROVIDER' "$work/utofu-verbs" || fail "man utofu-verbs lacks variables"
    else
        echo 'not tried: man is not installed'
    fi
    rm -rf "$work"
}
