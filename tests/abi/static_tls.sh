#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# static_tls.sh LIBTOFUCOM.SO: dlopen() finds room for its thread-local memory. All libraries that are loaded
# later share 1,664 bytes of glibc's (dl_tls.c, TLS_STATIC_SURPLUS), beside those of OpenMP and of MPI's plug-ins.
set -eu
most=1200
size=$(readelf -lW "$1" | awk '$1 == "TLS" { print $6 }')
case $size in
0x*) ;;
*) echo "FAILED: readelf shows no TLS segment of $1: '$size'" && exit 1 ;;
esac
if [ $((size)) -gt $most ]; then
    echo "FAILED: $1 has $((size)) bytes of thread-local memory, and may have $most:"
    readelf -sW "$1" | grep ' TLS ' | sort -n -k3 | tail -4
    exit 1
fi
