#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What utofu.hpp refuses at compile time does not compile, for the reason that it gives; the line
# beside it, which is right, does.
#
# usage: refuses.sh SOURCES COMPILER...
set -u
source=$1
shift
failures=0 compilers=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compiles LINE...: each in a function of its own
compiles() {
    local line number=0
    {
        echo 'struct Big { long a, b; };'
        for line; do
            number=$((number + 1))
            cat <<END
void use$number(Vcq &vcq, Vcq &other, VcqId peer, Stadd<double> d, Stadd<const double> c, Stadd<int> i, Stadd<Big> b,
    Stadd<char> k, std::vector<double> &v, const std::vector<double> &cv, Vbg &vbg, Notice &notice, void *cbdata)
{
    const OnesidedFlags flags = onesided_flag::tcq_notice;

    $line;
    (void)vcq, (void)other, (void)peer, (void)d, (void)c, (void)i, (void)b, (void)k, (void)v, (void)cv, (void)vbg;
    (void)notice, (void)cbdata, (void)flags;
}
END
        done
    } >"$work/line.cpp"
    "${compile[@]}" -include "$work/header.hpp" "$work/line.cpp" >"$work/out" 2>&1
}

# refused REASON WRONG RIGHT; RIGHT is compiled at the end, with those of all other calls
refused() {
    right+=("$3")
    if compiles "$2"; then
        failures=$((failures + 1))
        echo "FAIL: $compiler takes: $2"
    elif ! grep -qE -- "$1" "$work/out"; then
        failures=$((failures + 1))
        echo "FAIL: $compiler refuses '$2' for another reason than '$1':"
        head -20 "$work/out"
    fi
}

cat >"$work/header.hpp" <<END
#include <utofu.hpp>
#include <vector>
using namespace utofu;
END
for compiler; do
    command -v "$compiler" >/dev/null || { echo "not tried: $compiler is not installed"; continue; }
    compilers=$((compilers + 1)) right=()
    compile=("$compiler" -std=c++17 -Wall -Wextra -Werror -I"$source/include" -I"$source/bindings/cxx")
    # once for all lines: gcc and clang take the compiled header that is beside a header by this name
    if ! "${compile[@]}" -x c++-header "$work/header.hpp" -o "$work/header.hpp.gch"; then
        failures=$((failures + 1))
        echo "FAIL: $compiler does not compile the header"
    fi
    compile+=(-fsyntax-only -Winvalid-pch)
    refused 'is memory that is not written' '(void)vcq.put(peer, d, c, 1)' '(void)vcq.put(peer, c, d, 1)'
    refused 'is memory that is not written' '(void)vcq.get(peer, c, d, 1)' '(void)vcq.get(peer, d, c, 1)'
    refused 'are of different types' '(void)vcq.put(peer, i, d, 1)' '(void)vcq.put(peer, i.as<double>(), d, 1)'
    refused 'this memory is not written' '(void)c.as<int>()' '(void)c.as<const int>()'
    refused 'an ARMW is on integers' '(void)vcq.armw(peer, ArmwOp::add, 1.0, d)' '(void)vcq.armw(peer, ArmwOp::add, 1, i)'
    refused 'words of 4 or 8 bytes' "(void)vcq.armw(peer, ArmwOp::add, 'c', k)" '(void)vcq.cswap(peer, 1, 2, i)'
    refused 'at most 8 bytes' '(void)vcq.put_piggyback8(peer, Big{1, 2}, b)' '(void)vcq.put_piggyback8(peer, 1.0, d)'
    refused 'uTofu copies bytes' 'Memory<std::vector<double>> memory' 'Memory<double> memory'
    refused 'no known conversion|cannot convert|could not convert|no viable' '(void)vcq.put(peer, d, d, 1, 0, 4)' \
        '(void)vcq.put(peer, d, d, 1, 4, flags)'
    refused 'no known conversion|cannot convert|could not convert|no matching|no viable' 'Vcq created(0, onesided_flag::padding)' \
        'Vcq created(0, vcq_flag::exclusive)'
    refused 'no matching|no known conversion|cannot convert|could not convert' '(void)vcq.put(vcq.hdl(), d, d, 1)' \
        '(void)vcq.put(vcq.query_vcq_id(), d, d, 1)'
    refused 'deleted' 'other = vcq' 'other = std::move(vcq)'
    refused 'deleted' 'Vbg copy = vbg' 'Vbg moved = std::move(vbg)'
    refused 'unused-result|nodiscard' 'vcq.put(peer, d, d, 1)' 'vcq.poll_mrq(notice)'
    refused 'unused-result|nodiscard' 'vcq.nop()' 'vcq.poll_tcq(cbdata)'
    refused 'unused-result|nodiscard' 'vbg.barrier()' '(void)vbg.barrier()'
    refused 'no matching|could not convert|no known conversion|no viable' 'Memory<double> memory(vcq, cv)' \
        'Memory memory(vcq, cv)'
    compiles "${right[@]}" || { failures=$((failures + 1)); echo "FAIL: $compiler refuses a right line:"; head -40 "$work/out"; }
done
[ $compilers -gt 0 ] || { echo 'skipped: no C++ compiler is installed'; exit 77; }
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
