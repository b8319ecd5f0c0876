#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: keeps.sh COMMAND...: a job over verbs uses no key of memory that is not registered any more, for which it would
# lose a connection.
said=$(UTOFU_LOG_LEVEL=debug,category=verbs "$@" 2>&1) || { echo "$said"; exit 1; }
case $said in *'connects by'*) ;; *) echo "nothing is logged: $said"; exit 1 ;; esac
case $said in *'remote access error'*) echo "$said"; exit 1 ;; esac
