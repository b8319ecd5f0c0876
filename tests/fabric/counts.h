/* SPDX-License-Identifier: Apache-2.0 */
/* What the fabric has done in this process, for tests of it and of its users: dlsym() finds
 * fabric_counts() where the process has loaded it. */
#ifndef UT_FABRIC_COUNTS_H
#define UT_FABRIC_COUNTS_H

struct fabric_counts {
    unsigned long completions; /* handed out */
    unsigned long overtakings; /* of these, before one that was posted earlier */
    unsigned long held;        /* operations that were held back */
    unsigned long busy;        /* calls that got -FI_EAGAIN on purpose */
    unsigned long delivered;   /* writes that asked for FI_DELIVERY_COMPLETE */
    unsigned long lost;        /* messages, by the fault */
};

/* By any thread; the counts are atomic each. */
const struct fabric_counts *fabric_counts(void);

#endif
