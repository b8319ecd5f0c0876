/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control memory of this process, on color 0: al.area, and its words al.control. Valid after
 * al_control_setup().
 */
#ifndef AL_CONTROL_H
#define AL_CONTROL_H

#include "../common/partners.h"
#include "ctx.h"
#include "net.h"

#pragma GCC visibility push(hidden)

struct al_command {
    acp_ga_t dst, src;
    uint64_t size;
    uint32_t rank, number; /* the issuer, and its number for the command */
    uint64_t stamp;        /* value of the first answer */
    uint64_t unused[2];
    uint64_t seq; /* ticket + 1; arrives last */
};
_Static_assert(sizeof(struct al_command) == AL_BOUNCE, "a command fits where it is sent from");

struct al_control {
    struct lc_common_words common;
    uint64_t aborted; /* rank + 1 of the process that ends the job */
    uint64_t pad1[63];
    uint64_t tail; /* number of tickets taken */
    uint64_t pad2[31];
    uint64_t head; /* number of commands taken from the ring */
    uint64_t pad3[31];
    struct al_command ring[AL_RING];
    /* Targets of the second answers. Nobody reads these bytes: the address in the notice identifies
     * the command, and the cache line stays with the process that answers. */
    uint8_t succeeded[AL_OUTSTANDING], failed_commands[AL_OUTSTANDING];
    uint64_t answers[AL_OUTSTANDING]; /* first answers: stamps of commands that succeeded, see
                                         command.c */
};

bool al_control_setup(void);
void al_control_close(void);

/* In the control memory of the process that has this VCQ id of color 0. */
static inline utofu_stadd_t al_control_stadd(utofu_vcq_id_t id, size_t offset)
{
    return lc_control_stadd(&al.area, id, offset);
}

static inline struct lc_partner_context al_partner_context(void)
{
    return (struct lc_partner_context){&al.job, al_port(0), &al.area};
}

#pragma GCC visibility pop

#endif
