#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Replaces ssh, so that a launcher simulates several hosts on this one.
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec sh -c "$*"
