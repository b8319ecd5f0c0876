/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first byte is the length of the model, the record that was inserted first. The model follows.
 * Then each record has an entry: the length of the entry in one byte, or in two if the first one
 * has its highest bit set; the length of the record; and the runs of bytes that differ from the
 * model. A run begins with a byte of two counts: equal bytes to skip, and differing bytes that
 * follow. A count of 15 means that the next byte is added.
 */
#include "bootstrap/pack.h"
#include "bootstrap/job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    NIBBLE = 15, /* maximum count; the rest is in the next byte */
    LONG = 0x80, /* the length of the entry has a second byte */
    /* worst case: a run of one byte takes two bytes, and the equal byte before it none; plus
     * lengths and long runs */
    ENTRY_MAX = 2 + 1 + UT_JOB_RECORD_MAX + UT_JOB_RECORD_MAX / NIBBLE * 2 + 3,
};

_Static_assert(UT_JOB_RECORD_MAX <= UINT8_MAX, "the length of a record is a byte");

/* Reads bytes, and detects a premature end. */
struct reader {
    const uint8_t *at, *end;
    bool bad;
};

static unsigned int read_byte(struct reader *r)
{
    if (r->at < r->end)
        return *r->at++;
    r->bad = true;
    return 0;
}

static const uint8_t *read_bytes(struct reader *r, size_t n)
{
    const uint8_t *bytes = r->at;

    if ((size_t)(r->end - r->at) < n) {
        r->bad = true;
        return NULL;
    }
    r->at += n;
    return bytes;
}

static unsigned int read_count(struct reader *r, unsigned int nibble)
{
    return nibble < NIBBLE ? nibble : NIBBLE + read_byte(r);
}

/* Returns a reader of the next entry. */
static struct reader next_entry(struct reader *r)
{
    size_t length = read_byte(r);

    if (length & LONG)
        length = (length & (LONG - 1)) << 8 | read_byte(r);
    const uint8_t *bytes = read_bytes(r, length);
    return (struct reader){bytes, bytes ? bytes + length : NULL, bytes == NULL};
}

/* Reads the model, and skips to the entry with this index. */
static struct reader go_to(const struct ut_job_pack *pack, unsigned int index, struct reader *model)
{
    struct reader r = {pack->data, pack->data ? pack->data + pack->size : NULL, false};
    size_t size = read_byte(&r);
    const uint8_t *bytes = read_bytes(&r, size);

    *model = (struct reader){bytes, bytes ? bytes + size : NULL, bytes == NULL};
    for (unsigned int i = 0; i < index && !r.bad; i++)
        next_entry(&r);
    return r;
}

static uint8_t *write_run(uint8_t *out, size_t skip, const uint8_t *bytes, size_t n)
{
    *out++ = (uint8_t)((skip < NIBBLE ? skip : NIBBLE) << 4 | (n < NIBBLE ? n : NIBBLE));
    if (skip >= NIBBLE)
        *out++ = (uint8_t)(skip - NIBBLE);
    if (n >= NIBBLE)
        *out++ = (uint8_t)(n - NIBBLE);
    memcpy(out, bytes, n);
    return out + n;
}

/* Writes the runs of a record. Returns the end. */
static uint8_t *write_runs(uint8_t *out, const uint8_t *record, size_t size,
                           const struct reader *model)
{
    size_t common = (size_t)(model->end - model->at), done = 0, from = 0;

    while (from < size) {
        while (from < size && from < common && record[from] == model->at[from])
            from++;
        size_t to = from;
        while (to < size && (to >= common || record[to] != model->at[to]))
            to++;
        if (to > from)
            out = write_run(out, from - done, record + from, to - from);
        done = from = to;
    }
    return out;
}

static size_t make_entry(uint8_t entry[ENTRY_MAX], const void *record, size_t size,
                         const struct reader *model)
{
    uint8_t body[ENTRY_MAX], *out = entry;

    body[0] = (uint8_t)size;
    size_t n = (size_t)(write_runs(body + 1, record, size, model) - body);
    if (n >= LONG)
        *out++ = (uint8_t)(LONG | n >> 8);
    *out++ = (uint8_t)n;
    memcpy(out, body, n);
    return (size_t)(out + n - entry);
}

static int make_first_entry(struct ut_job_pack *pack, const void *record, size_t size)
{
    uint8_t *data = malloc(1 + size);

    if (!data)
        return -ENOMEM;
    data[0] = (uint8_t)size;
    if (size > 0)
        memcpy(data + 1, record, size);
    pack->data = data;
    pack->size = 1 + size;
    return 0;
}

int ut_job_pack_insert(struct ut_job_pack *pack, unsigned int index, const void *record,
                       size_t size)
{
    uint8_t entry[ENTRY_MAX], *data;
    struct reader model, place;

    if (size > UT_JOB_RECORD_MAX)
        return -EINVAL;
    if (!pack->data && make_first_entry(pack, record, size) != 0)
        return -ENOMEM;
    place = go_to(pack, index, &model);
    if (place.bad)
        return -EINVAL;
    size_t n = make_entry(entry, record, size, &model), at = (size_t)(place.at - pack->data);
    data = realloc(pack->data, pack->size + n);
    if (!data)
        return -ENOMEM;
    memmove(data + at + n, data + at, pack->size - at);
    memcpy(data + at, entry, n);
    pack->data = data;
    pack->size += n;
    return 0;
}

void ut_job_pack_remove(struct ut_job_pack *pack, unsigned int index)
{
    struct reader model, place = go_to(pack, index, &model), after = place;

    next_entry(&after);
    if (after.bad)
        return;
    size_t rest = (size_t)(after.end - after.at);
    memmove(pack->data + (place.at - pack->data), after.at, rest);
    pack->size -= (size_t)(after.at - place.at);
}

/* Copies the model, and replaces the bytes that differ. False: the entry is damaged. */
static bool read_runs(struct reader *entry, uint8_t *record, size_t size)
{
    size_t at = 0;

    while (entry->at < entry->end) {
        unsigned int head = read_byte(entry), skip = read_count(entry, head >> 4);
        unsigned int n = read_count(entry, head & NIBBLE);
        const uint8_t *bytes = read_bytes(entry, n);
        at += skip;
        if (!bytes || at + n > size)
            return false;
        memcpy(record + at, bytes, n);
        at += n;
    }
    return !entry->bad;
}

bool ut_job_pack_read(const struct ut_job_pack *pack, unsigned int index, void *record,
                      size_t *size)
{
    struct reader model, place = go_to(pack, index, &model), entry = next_entry(&place);

    if (place.bad || model.bad || entry.bad)
        return false;
    size_t common = (size_t)(model.end - model.at);
    *size = read_byte(&entry);
    memset(record, 0, *size);
    memcpy(record, model.at, common < *size ? common : *size);
    return !entry.bad && read_runs(&entry, record, *size);
}

void ut_job_pack_free(struct ut_job_pack *pack)
{
    free(pack->data);
    *pack = (struct ut_job_pack){NULL, 0};
}
