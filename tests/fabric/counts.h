/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of the fabric in this process, for tests of it and of its users: dlsym() finds
 * fabric_counts() if the process has loaded it. */
#ifndef UT_FABRIC_COUNTS_H
#define UT_FABRIC_COUNTS_H

struct fabric_counts {
    unsigned long completions; /* handed out */
    unsigned long overtakings; /* of these, before one that was posted earlier */
    unsigned long held;        /* operations that were held back */
    unsigned long busy;        /* calls that returned -FI_EAGAIN on purpose */
    unsigned long delivered;   /* writes with FI_DELIVERY_COMPLETE */
    unsigned long lost;        /* messages lost by the fault */
};

/* By any thread; the counts are atomic each. */
const struct fabric_counts *fabric_counts(void);

#endif
