/* SPDX-License-Identifier: Apache-2.0 */
/* The cause of a failed communication, beyond its return code. */
#ifndef UT_UTIL_CAUSE_H
#define UT_UTIL_CAUSE_H

#include <stdint.h>

enum ut_cause {
    UT_CAUSE_NONE, /* no cause is known */

    /* an invalid STADD with its length; detail: bytes */
    UT_CAUSE_NO_STAG,   /* its STag has no registered memory */
    UT_CAUSE_BEFORE,    /* detail: distance before its region */
    UT_CAUSE_BEHIND,    /* detail: distance from the last byte of its region */
    UT_CAUSE_SHORT,     /* detail: bytes left in its region */
    UT_CAUSE_READ_ONLY, /* its region is read-only */
    UT_CAUSE_ACCESS,    /* valid, but the memory could not be accessed */

    /* the peer; detail: seconds */
    UT_CAUSE_DEAD,            /* its process has ended */
    UT_CAUSE_SILENT,          /* its process or host did not answer for too long */
    UT_CAUSE_LOST,            /* no connection could be made in time, the first or again */
    UT_CAUSE_FREED,           /* its VCQ was freed */
    UT_CAUSE_NO_VCQ,          /* its process did not create the VCQ in time */
    UT_CAUSE_NOT_STARTED,     /* its process has not called the library in time */
    UT_CAUSE_NO_OWNER,        /* no process of the job owns the CQ */
    UT_CAUSE_UNREACHABLE,     /* no provider reaches the peer */
    UT_CAUSE_REFUSED,         /* one of the two processes rejects the other; logged */
    UT_CAUSE_INCOMPATIBLE,    /* its process runs another version or ARMW mode; logged */
    UT_CAUSE_INVALID_ADDRESS, /* its address is unknown or unusable; logged */

    /* this process */
    UT_CAUSE_DEVICE,   /* device, port or connection manager refused; logged */
    UT_CAUSE_SHORTAGE, /* lack of memory or descriptors for too long; logged */
    UT_CAUSE_NO_MEMORY,
    UT_CAUSE_BROKEN_REPEATEDLY, /* each time soon after the connection came up; detail: how often */
    UT_CAUSE_OUTCOME_UNKNOWN, /* the connection broke; the communication may have been executed, so
                               * it is not repeated */
};

struct ut_failure {
    uint64_t detail;
    uint8_t cause; /* enum ut_cause */
};

#endif
