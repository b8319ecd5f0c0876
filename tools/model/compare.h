/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measured beside told: how long regions and waits took in the run that was recorded, and how long
 * the model says. Rows are one for each region, kind of wait and size; a row has the medians.
 */
#ifndef UM_COMPARE_H
#define UM_COMPARE_H

#include "model/sim.h"

enum um_wait {
    UM_WAIT_REGION, /* from the start of a region to its end */
    UM_WAIT_START,  /* from the start of a communication to that of the next one */
    UM_WAIT_TCQ,    /* from the start of a communication to its TCQ entry */
    UM_WAIT_PUT,    /* to its local notice */
    UM_WAIT_GET,
    UM_WAIT_ARMW,
    UM_WAIT_ANSWER,  /* from the thread's last start to a remote notice */
    UM_WAIT_MEMORY,  /* from the thread's last start to a call that waits for memory */
    UM_WAIT_BARRIER, /* from the start of a barrier communication to its result */
};

struct um_row {
    uint32_t region; /* the innermost one; UM_NONE: none */
    uint32_t length;
    enum um_wait wait;
    size_t count;
    double measured, told; /* ns */
};

struct um_rows {
    struct um_row *rows;
    size_t num, room;
};

/* The rows of a run; those of another run of the same program are in the same order. */
struct um_rows um_compare_rows(const struct um_sim *sim);
/* Replays the program on another machine, at the same places. */
struct um_rows um_compare_with(const struct um_sim *sim, const struct um_machine *machine);
void um_rows_free(struct um_rows *rows);

/* The mean of |log(told / measured)| over rows, as a factor: 0.1 is 10 %. */
double um_compare_error(const struct um_rows *rows);

void um_compare_print(const struct um_sim *sim);
/* fit.c: proposes values of the machine's keys. */
void um_fit_print(const struct um_sim *sim);

/* Keys of the machine that may be any number. */
struct um_key {
    const char *name; /* "link.hop_ns" */
    size_t offset;    /* in struct um_machine */
    double least;
};
extern const struct um_key um_keys[];
extern const size_t um_num_keys;
double *um_key_value(struct um_machine *machine, size_t key);
/* The change by which told times are measured. Large enough for keys that are 0. */
double um_key_step(const struct um_machine *machine, size_t key);

#endif
