/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that peers write to and read of this process, on color 0: al.control, once
 * al_control_setup() has been called.
 */
#ifndef AL_CONTROL_H
#define AL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "acp.h"
#include "sizes.h"

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
    uint64_t fingers[32]; /* VCQ ids of the processes 1, 2, 4, 8... ranks ahead */
    uint64_t sync[32];    /* the epoch in which the process 2^n ranks behind has come */
    uint64_t aborted;     /* 1 + the rank that ends the job */
    uint64_t pad1[63];
    uint64_t tail; /* tickets given out */
    uint64_t pad2[31];
    uint64_t head; /* commands taken out of the ring */
    uint64_t pad3[31];
    struct al_command ring[AL_RING];
    /* Where the notice that the command of a number is done is put. Nobody reads it: the notice
     * says which it is, so that the line stays in the cache of the one who answers. */
    uint8_t done_well[AL_AWAY], done_badly[AL_AWAY];
    uint64_t answers[AL_AWAY]; /* stamps of commands that were done well: command.c */
};

bool al_control_setup(void);
void al_control_close(void);
void al_control_use(struct al_use *use);

#pragma GCC visibility pop

#endif
