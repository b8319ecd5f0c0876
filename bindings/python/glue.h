/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the Python package calls besides the functions of utofu.h (generate.py adds one function for
 * each that takes callback data). cffi releases Python's lock around each call.
 */
#ifndef UTOFU_PYTHON_GLUE_H
#define UTOFU_PYTHON_GLUE_H

#include <sched.h>
#include <stdint.h>
#include <stdlib.h>

#include <utofu.h>
#include <utofu_ext.h>

/* Polls some times, and lets others use the processor in between. */
static int wait_barrier(uint64_t vbg_id, int polls)
{
    int rc = UTOFU_ERR_NOT_COMPLETED;

    for (int i = 0; i < polls && rc == UTOFU_ERR_NOT_COMPLETED; i++) {
        rc = utofu_poll_barrier(vbg_id, 0);
        if (rc == UTOFU_ERR_NOT_COMPLETED)
            sched_yield();
    }
    return rc;
}

static int wait_reduce_uint64(uint64_t vbg_id, int polls, uint64_t data[])
{
    int rc = UTOFU_ERR_NOT_COMPLETED;

    for (int i = 0; i < polls && rc == UTOFU_ERR_NOT_COMPLETED; i++) {
        rc = utofu_poll_reduce_uint64(vbg_id, 0, data);
        if (rc == UTOFU_ERR_NOT_COMPLETED)
            sched_yield();
    }
    return rc;
}

static int wait_reduce_double(uint64_t vbg_id, int polls, double data[])
{
    int rc = UTOFU_ERR_NOT_COMPLETED;

    for (int i = 0; i < polls && rc == UTOFU_ERR_NOT_COMPLETED; i++) {
        rc = utofu_poll_reduce_double(vbg_id, 0, data);
        if (rc == UTOFU_ERR_NOT_COMPLETED)
            sched_yield();
    }
    return rc;
}

#endif
