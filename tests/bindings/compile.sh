#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The bindings, their tests and their examples compile without a warning, with each compiler that is
# installed and each standard that it knows from the first one on that they are written in.
#
# usage: compile.sh SOURCES UTOFU.F90
set -u
source=$1 module=$(readlink -f "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0 compilers=0
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
}

cd "$folder" || exit 1
files=("$source"/tests/bindings/cases.cpp "$source"/tests/bindings/put/put.cpp "$source"/examples/*.cpp)
grep -h '^#include <' "${files[@]}" | sort -u >header.hpp
for compiler in g++ clang++; do
    command -v $compiler >/dev/null || { echo "not tried: $compiler is not installed"; continue; }
    compilers=$((compilers + 1))
    for standard in c++17 c++20 c++2b; do
        command=("$compiler" "-std=$standard" -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror
            -DUTOFU_WARN_UNUSED -I"$source/include" -I"$source/bindings/cxx" -I"$source/examples")
        # what all of them include, once: gcc and clang take it from beside the header, by this name
        rm -f header.hpp.gch
        "${command[@]}" -x c++-header header.hpp -o header.hpp.gch || fail "${command[*]} utofu.hpp"
        for file in "${files[@]}"; do
            "${command[@]}" -fsyntax-only -Winvalid-pch -include ./header.hpp "$file" || fail "$compiler -std=$standard $file"
        done
    done
done
for compiler in gfortran flang flang-new flang-new-{19,20,21}; do
    command -v "$compiler" >/dev/null || { echo "not tried: $compiler is not installed"; continue; }
    version=$($compiler --version | sed -n 's/.* version \([0-9]*\)\..*/\1/p' | head -1)
    case $compiler in
    flang*) [ "${version:-0}" -ge 19 ] || { echo "not tried: $compiler has version $version, not 19"; continue; } ;;
    esac
    compilers=$((compilers + 1))
    case $compiler in
    gfortran) standards='f2008 f2018' flags='-Wall -Wextra -pedantic -Werror -O2' openmp=-fopenmp ;;
    *) standards=f2018 flags='-pedantic -Werror -O2' openmp='' ;;
    esac
    for standard in $standards; do
        rm -f ./*.mod
        all="$flags -std=$standard"
        for file in "$module" "$source"/examples/meeting.f90 "$source"/tests/bindings/put/put.f90 \
            "$source"/tests/bindings/cases.f90 "$source"/examples/*_fortran.f90; do
            case $file in *lapi_fortran.f90) continue ;; esac
            # shellcheck disable=SC2086
            $compiler $all -c "$file" -o object.o || fail "$compiler $all $file"
        done
        [ -n "$openmp" ] || continue
        # shellcheck disable=SC2086
        $compiler $all $openmp -c "$source/tests/bindings/threads.f90" -o object.o || fail "$compiler $all threads.f90"
    done
done
[ $compilers -gt 0 ] || { echo 'skipped: no compiler for C++ or Fortran is installed'; exit 77; }
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
