/* SPDX-License-Identifier: Apache-2.0 */
/* Why a communication failed, beyond its return code. */
#ifndef UT_UTIL_CAUSE_H
#define UT_UTIL_CAUSE_H

#include <stdint.h>

enum ut_cause {
    UT_CAUSE_NONE, /* the return code says all that is known */

    /* an STADD with a length; detail in bytes */
    UT_CAUSE_NO_STAG,   /* nothing is registered under its STag (any more) */
    UT_CAUSE_BEFORE,    /* detail: how far it is before its region */
    UT_CAUSE_BEHIND,    /* detail: how far it is behind the last byte of its region */
    UT_CAUSE_SHORT,     /* detail: how many bytes are left in its region */
    UT_CAUSE_READ_ONLY, /* its region is read-only */
    UT_CAUSE_ACCESS,    /* it is valid, but the memory could not be accessed */

    /* a peer; detail in seconds */
    UT_CAUSE_DEAD,        /* its process is gone */
    UT_CAUSE_SILENT,      /* its process or host has been silent for too long */
    UT_CAUSE_LOST,        /* the connection broke and could not be made again within the time */
    UT_CAUSE_FREED,       /* its VCQ was freed */
    UT_CAUSE_NO_VCQ,      /* its process did not make the VCQ within the time */
    UT_CAUSE_NOT_STARTED, /* its process has not called the library within the time */
    UT_CAUSE_NOBODY,      /* no process of the job owns it */
    UT_CAUSE_UNREACHABLE, /* no provider reaches it */
    UT_CAUSE_ADDRESS,     /* its address cannot be had or used; logged */

    /* this side */
    UT_CAUSE_DEVICE,   /* its device, port or connection manager refused; logged */
    UT_CAUSE_SHORTAGE, /* it lacked memory or descriptors for too long; logged */
    UT_CAUSE_NO_MEMORY,
    UT_CAUSE_BREAKS, /* its connection broke so often, each time soon and before it was complete */
    UT_CAUSE_FATE,   /* its connection broke: it may have been executed, and is not repeated */
};

struct ut_why {
    uint64_t detail;
    uint8_t cause; /* enum ut_cause */
};

#endif
