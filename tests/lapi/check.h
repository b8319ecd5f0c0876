/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs of the suite lapi. Every process runs the same program under utofurun, and
 * ends with status 1 at the first error.
 */
#ifndef LAPI_CHECK_H
#define LAPI_CHECK_H

#include <lapi.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../harness/limit.h"

static lapi_handle_t hndl;
static int me, n;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "task %d: %s:%d: %s\n", me, __FILE__, __LINE__, #condition);           \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define OK(call)                                                                                   \
    do {                                                                                           \
        int ok_rc = (call);                                                                        \
        if (ok_rc != LAPI_SUCCESS) {                                                               \
            char ok_text[LAPI_MSG_STRING];                                                         \
            LAPI_Msg_string(ok_rc, ok_text);                                                       \
            fprintf(stderr, "task %d: %s:%d: %s: %s\n", me, __FILE__, __LINE__, #call, ok_text);   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline void init(LAPI_err_hndlr *err_hndlr)
{
    lapi_info_t info = {.err_hndlr = err_hndlr};

    OK(LAPI_Init(&hndl, &info));
    OK(LAPI_Qenv(hndl, TASK_ID, &me));
    OK(LAPI_Qenv(hndl, NUM_TASKS, &n));
}

static inline void set(lapi_cntr_t *cntr, int value)
{
    OK(LAPI_Setcntr(hndl, cntr, value));
}

static inline void wait_for(lapi_cntr_t *cntr, int value)
{
    OK(LAPI_Waitcntr(hndl, cntr, value, NULL));
}

static inline int value_of(lapi_cntr_t *cntr)
{
    int value = -1;

    OK(LAPI_Getcntr(hndl, cntr, &value));
    return value;
}

/* Function pointers as the interface expects them. */
static inline void *address_of(hdr_hndlr_t *handler)
{
    void *address;

    memcpy(&address, &handler, sizeof(address));
    return address;
}

/* Byte k of message `number` from task `from`. */
static inline uint8_t byte_of(int from, int number, size_t k)
{
    return (uint8_t)(from * 31 + number * 7 + (int)(k * 13) + (int)(k >> 8));
}

static inline void fill(uint8_t *data, size_t size, int from, int number)
{
    for (size_t k = 0; k < size; k++)
        data[k] = byte_of(from, number, k);
}

static inline bool is_filled(const uint8_t *data, size_t size, int from, int number)
{
    for (size_t k = 0; k < size; k++)
        if (data[k] != byte_of(from, number, k))
            return false;
    return true;
}

#endif
