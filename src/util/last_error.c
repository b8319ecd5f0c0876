/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last error of each thread. Static TLS is scarce: if a program loads this library late, all
 * libraries together have some hundred bytes. So a thread has a few words in TLS, and a record with
 * the text in a separate mapping, which its first error creates. The record is mapped, not
 * allocated, because a signal handler that calls this library may have interrupted malloc(). A
 * pthread key unmaps the record when the thread ends.
 */
#include "util/last_error.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "util/codes.h"

struct record {
    ut_last_error_fn *make; /* NULL: `text` is valid */
    uint64_t data[UT_LAST_ERROR_DATA / sizeof(uint64_t)];
    char text[UT_LAST_ERROR_TEXT];
};

/* What the threads share: the last log line of any of them, and the key of their records. */
static struct {
    pthread_mutex_t lock; /* guards `line` */
    char line[UT_LAST_ERROR_TEXT];
    pthread_key_t record_key;
    bool has_key;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static UT_THREAD_LOCAL struct {
    struct record *record; /* NULL: no record yet, or no memory */
    int rc;
    bool there, said;
    bool ending; /* the thread is ending */
} last;

UT_THREAD_LOCAL uint64_t ut_last_error_busy;

/* Called when the thread ends. The first call keeps the record for destructors of the program that
 * run later: the C library then calls all destructors again. */
static void release_record(void *record)
{
    if (!last.ending) {
        last.ending = true;
        pthread_setspecific(shared.record_key, record);
        return;
    }
    last.record = NULL;
    last.there = false;
    munmap(record, sizeof(struct record));
}

/* -z nodelete: the destructor is never unloaded. */
__attribute__((constructor)) static void create_key(void)
{
    shared.has_key = pthread_key_create(&shared.record_key, release_record) == 0;
}

/* The record of this thread; NULL: no memory. A signal handler may create the record first, at any
 * step of this function. */
static struct record *own_record(void)
{
    struct record *none = NULL, *record = last.record;
    int error = errno;

    if (record)
        return record;
    record =
        mmap(NULL, sizeof(*record), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = error; /* the caller may not have read errno yet */
    if (record == MAP_FAILED)
        return NULL;
    if (!__atomic_compare_exchange_n(&last.record, &none, record, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
        munmap(record, sizeof(*record));
        return none;
    }
    if (shared.has_key)
        pthread_setspecific(shared.record_key, record);
    return record;
}

static struct record *begin_with(int rc, ut_last_error_fn *make)
{
    struct record *record = own_record();

    ut_last_error_busy = 0;
    last.rc = rc;
    last.there = last.said = true;
    if (record)
        record->make = make;
    return record;
}

void ut_last_error_text(int rc, const char *text)
{
    struct record *record = begin_with(rc, NULL);

    if (record)
        snprintf(record->text, sizeof(record->text), "%s", text);
    if (rc != 0)
        return;
    pthread_mutex_lock(&shared.lock);
    snprintf(shared.line, sizeof(shared.line), "%s", text);
    pthread_mutex_unlock(&shared.lock);
}

void ut_last_error_data(int rc, ut_last_error_fn *make, const void *data, size_t size)
{
    struct record *record = begin_with(rc, make);

    if (record)
        memcpy(record->data, data, size);
}

void ut_last_error_begin(void)
{
    last.said = false;
}

bool ut_last_error_has_text(void)
{
    return last.said;
}

void ut_last_error_code(int rc)
{
    last.rc = rc;
}

static const char *own_text(void)
{
    struct record *record = last.record;

    if (!record)
        return "out of memory: there is no room for the text of this error";
    if (record->make) {
        record->make(record->data, record->text, sizeof(record->text));
        record->make = NULL;
    }
    return record->text;
}

void ut_last_error_get(char *buf, size_t size, bool with_code)
{
    size_t n = 0;

    if (!last.there) {
        pthread_mutex_lock(&shared.lock);
        snprintf(buf, size, "%s", shared.line);
        pthread_mutex_unlock(&shared.lock);
        return;
    }
    const char *text = own_text();
    if (with_code && last.rc != 0)
        n = (size_t)snprintf(buf, size, "%s (%d): ", ut_code_name(last.rc), last.rc);
    snprintf(buf + n, size - n, "%s", text);
}
