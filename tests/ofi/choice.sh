#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The choice of a fabric of libfabric, and the message where there is none.
# Usage: choice.sh UTOFURUN UTOFU-INFO BUILD-FOLDER
set -u
run=$1
info=$2
build=$3
fail() { echo "choice: $*"; exit 1; }
example=$build/examples/pingpong_notice

unset UTOFU_PROVIDER UTOFU_OFI_PROVIDER UTOFU_OFI_DOMAIN
export UTOFU_LOG_LEVEL=info,category=ofi,process
out=$(UTOFU_PROVIDER=ofi UTOFU_OFI_PROVIDER=tcp UTOFU_OFI_DOMAIN=lo "$run" -n 2 "$example" 2>&1) || fail "tcp: $out"
echo "$out" | grep -q "tcp.* on lo" || fail "tcp is not used: $out"
echo "$out" | grep -q "rank 1: 1000 rounds" || fail "tcp: $out"

# TCP without ofi_rxm below it is preferred where libfabric has it; the user may name another
if fi_info -p net -t FI_EP_RDM 2>/dev/null | grep -q FI_PROTO_XNET; then
    for named in '' net; do
        out=$(UTOFU_PROVIDER=ofi UTOFU_OFI_PROVIDER=$named UTOFU_OFI_DOMAIN=lo "$run" -n 2 "$example" 2>&1) ||
            fail "net: $out"
        echo "$out" | grep -q "net on lo" || fail "net is not used: $out"
        echo "$out" | grep -q "rank 1: 1000 rounds" || fail "net: $out"
    done
    out=$(UTOFU_PROVIDER=ofi UTOFU_OFI_PROVIDER='tcp;ofi_rxm' UTOFU_OFI_DOMAIN=lo "$run" -n 2 "$example" 2>&1) ||
        fail "tcp;ofi_rxm: $out"
    echo "$out" | grep -q "tcp;ofi_rxm on lo" || fail "tcp;ofi_rxm is not used: $out"
fi

# buffers of another size, and a size that is too small for a message
out=$(UTOFU_PROVIDER=ofi UTOFU_OFI_PROVIDER=tcp UTOFU_OFI_DOMAIN=lo FI_OFI_RXM_BUFFER_SIZE=2048 "$run" -n 2 \
    "$build/tools/utofu-perf" --verify -s 1500,3000,5000,20000 -n 20 put-lat 2>&1) || fail "2048: $out"
echo "$out" | grep -q 'messages to 1792 bytes' || fail "2048, other pieces: $out"

# RMA is used where the fabric has it, unless the user disables it
for least in 16384 0; do
    out=$(UTOFU_PROVIDER=ofi UTOFU_OFI_PROVIDER=tcp,rma=$least UTOFU_OFI_DOMAIN=lo "$run" -n 2 \
        "$build/tools/utofu-perf" --verify -s 20000,1M -n 20 put-lat get-lat 2>&1) || fail "RMA $least: $out"
    [ $least = 0 ] && wanted='from 0 bytes on: never' || wanted="from $least bytes on$"
    echo "$out" | grep -q "RMA $wanted" || fail "RMA $least: $out"
done

refused() { # TEXT VARIABLE...
    text=$1
    shift
    if out=$(env UTOFU_PROVIDER=ofi "$@" "$run" -n 2 "$example" 2>&1); then
        fail "$* was not refused: $out"
    fi
    echo "$out" | grep -q "$text" || fail "$*: $out"
}
refused 'UTOFU_OFI_PROVIDER=nonsense' UTOFU_OFI_PROVIDER=nonsense
refused 'UTOFU_OFI_DOMAIN names another' UTOFU_OFI_PROVIDER=tcp UTOFU_OFI_DOMAIN=nonsense
refused 'reaches this host only' UTOFU_OFI_PROVIDER=shm
refused 'lost when an endpoint is closed' UTOFU_OFI_PROVIDER=sockets
refused 'FI_OFI_RXM_BUFFER_SIZE has to be 2048' UTOFU_OFI_PROVIDER=tcp UTOFU_OFI_DOMAIN=lo FI_OFI_RXM_BUFFER_SIZE=1024
refused 'UTOFU_ARMW=nic needs' UTOFU_OFI_PROVIDER=tcp UTOFU_OFI_DOMAIN=lo UTOFU_ARMW=nic

# a job on one host opens no fabric
out=$("$run" -n 2 "$example" 2>&1) || fail "auto: $out"
echo "$out" | grep -q 'providers .*ofi' && fail "auto opens ofi on one host: $out"
out=$(UTOFU_PROVIDER=ofi UTOFU_OFI_PROVIDER=nonsense "$info" --check 2>&1) && fail "--check finds nothing: $out"
echo "$out" | grep -q 'FAIL  libfabric: no fabric reaches other hosts' || fail "--check: $out"
