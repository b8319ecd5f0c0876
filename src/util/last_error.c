/* SPDX-License-Identifier: Apache-2.0 */
/* The last error of each thread. */
#include "util/last_error.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "util/codes.h"

static pthread_mutex_t line_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_line[UT_LAST_ERROR_TEXT]; /* the last log line of any thread */

static __thread struct {
    int rc;
    bool there, said;
    ut_last_error_fn *make; /* NULL: `text` is set */
    uint64_t data[UT_LAST_ERROR_DATA / sizeof(uint64_t)];
    char text[UT_LAST_ERROR_TEXT];
} last;

__thread uint64_t ut_last_error_busy;

static void begin_with(int rc, ut_last_error_fn *make)
{
    ut_last_error_busy = 0;
    last.rc = rc;
    last.make = make;
    last.there = last.said = true;
}

void ut_last_error_text(int rc, const char *text)
{
    begin_with(rc, NULL);
    snprintf(last.text, sizeof(last.text), "%s", text);
    if (rc != 0)
        return;
    pthread_mutex_lock(&line_lock);
    memcpy(last_line, last.text, sizeof(last_line));
    pthread_mutex_unlock(&line_lock);
}

void ut_last_error_data(int rc, ut_last_error_fn *make, const void *data, size_t size)
{
    begin_with(rc, make);
    memcpy(last.data, data, size);
}

void ut_last_error_begin(void)
{
    last.said = false;
}

bool ut_last_error_said(void)
{
    return last.said;
}

void ut_last_error_code(int rc)
{
    last.rc = rc;
}

void ut_last_error_get(char *buf, size_t size, bool with_code)
{
    size_t n = 0;

    if (!last.there) {
        pthread_mutex_lock(&line_lock);
        snprintf(buf, size, "%s", last_line);
        pthread_mutex_unlock(&line_lock);
        return;
    }
    if (last.make) {
        last.make(last.data, last.text, sizeof(last.text));
        last.make = NULL;
    }
    if (with_code && last.rc != 0)
        n = (size_t)snprintf(buf, size, "%s (%d): ", ut_code_name(last.rc), last.rc);
    snprintf(buf + n, size - n, "%s", last.text);
}
