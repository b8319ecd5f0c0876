/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that peers write to and read of this process, on color 0: al.area, and its words
 * al.control, once al_control_setup() has been called.
 */
#ifndef AL_CONTROL_H
#define AL_CONTROL_H

#include "../common/fingers.h"
#include "ctx.h"
#include "net.h"

#pragma GCC visibility push(hidden)

struct al_command {
    acp_ga_t dst, src;
    uint64_t size;
    uint32_t rank, number; /* who wants to know when it is done, and which of its commands it is */
    uint64_t stamp;        /* what is written to its answer */
    uint64_t unused[2];
    uint64_t seq; /* the ticket plus one; arrives last */
};
_Static_assert(sizeof(struct al_command) == AL_BOUNCE, "a command fits where it is sent from");

struct al_control {
    struct lc_words common;
    uint64_t aborted; /* 1 + the rank that ends the job */
    uint64_t pad1[63];
    uint64_t tail; /* tickets given out */
    uint64_t pad2[31];
    uint64_t head; /* commands taken out of the ring */
    uint64_t pad3[31];
    struct al_command ring[AL_RING];
    /* Where the notice that the command of a number is done is put. Nobody reads it: the notice
     * says which it is, so that the line stays in the cache of the one who answers. */
    uint8_t succeeded[AL_OUTSTANDING], failed_commands[AL_OUTSTANDING];
    uint64_t answers[AL_OUTSTANDING]; /* stamps of commands that were done well: command.c */
};

bool al_control_setup(void);
void al_control_close(void);

/* Of the process with this VCQ id, of color 0. */
static inline utofu_stadd_t al_control_stadd(utofu_vcq_id_t id, size_t offset)
{
    return lc_control_stadd(&al.area, id, offset);
}

static inline struct lc_fingers al_fingers(void)
{
    return (struct lc_fingers){&al.job, al_port(0), &al.area};
}

#pragma GCC visibility pop

#endif
