/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for what. Notices are matched exactly: the TCQ entries of a VCQ come in the order of
 * its communications, and MRQ notices of the same type, origin and edata in the order in which the
 * origin started them. Puts and ARMWs without a remote notice may be waited for by reading memory,
 * which no call tells; docs/guide/model.md has the rule, implemented in seen.c.
 */
#ifndef UM_MATCH_H
#define UM_MATCH_H

#include "model/program.h"

void um_match(struct um_program *program);

/* seen.c: from landing times, and utofu_profile_seen(). */
void um_match_seen(struct um_program *program);

/* The operations of a process in order of time, over all of its threads. */
struct um_call {
    uint64_t begin;
    uint32_t thread, op;
};
struct um_call *um_calls_of(const struct um_program *program, uint32_t process, size_t *num);

#endif
