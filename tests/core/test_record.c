/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses in an address record: those of unknown providers are skipped, and nothing beyond
 * the record is read. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"
#include "wire/record.h"

enum { UNKNOWN = 77, KNOWN = 5 };

struct made {
    uint8_t *bytes; /* exactly as long as the record, so that a sanitizer detects reads beyond it */
    size_t size;
};

static void append(struct made *m, const void *bytes, size_t size)
{
    m->bytes = realloc(m->bytes, m->size + size);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

static void append_address(struct made *m, uint8_t provider, uint8_t size, uint8_t fill)
{
    uint8_t text[255];
    struct ut_record_address a = {.provider = provider, .size = size};

    memset(text, fill, sizeof(text));
    append(m, &a, sizeof(a));
    append(m, text, size);
}

static struct made make(uint8_t num_addrs, uint8_t cq_list)
{
    struct ut_address_record r = {
        .magic = UT_ADDRESS_RECORD_MAGIC, .num_cqs = 3, .num_addrs = num_addrs, .cq_list = cq_list};
    uint16_t cqs[3] = {4, 9, 2};
    struct made m = {0};

    append(&m, &r, sizeof(r));
    if (cq_list)
        append(&m, cqs, sizeof(cqs));
    return m;
}

Test(record, an_unknown_provider_is_passed_by)
{
    for (uint8_t list = 0; list < 2; list++) {
        struct made m = make(3, list);
        append_address(&m, UNKNOWN, 255, 'u');
        append_address(&m, KNOWN, 7, 'k');
        append_address(&m, KNOWN + 1, 0, 0);
        const struct ut_record_address *a = ut_record_find(m.bytes, m.size, KNOWN);
        cr_assert(a && a->size == 7 && a->bytes[0] == 'k' && a->bytes[6] == 'k');
        cr_assert_null(ut_record_find(m.bytes, m.size, KNOWN + 1), "it has no address");
        cr_assert_null(ut_record_find(m.bytes, m.size, KNOWN + 2));
        cr_assert(ut_record_end(m.bytes, m.size) == m.size);
        free(m.bytes);
    }
}

Test(record, what_is_cut_off_is_not_looked_at)
{
    struct made m = make(2, 1);

    append_address(&m, UNKNOWN, 9, 'u');
    append_address(&m, KNOWN, 20, 'k');
    for (size_t size = 0; size < m.size; size++) {
        uint8_t *cut = malloc(size ? size : 1);
        memcpy(cut, m.bytes, size);
        cr_assert(ut_record_end(cut, size) == 0, "%zu of %zu bytes", size, m.size);
        cr_assert_null(ut_record_find(cut, size, KNOWN));
        free(cut);
    }
    cr_assert_not_null(ut_record_find(m.bytes, m.size, KNOWN));
    free(m.bytes);
}

Test(record, an_address_that_no_provider_has_is_not_used)
{
    struct made m = make(1, 0);

    append_address(&m, KNOWN, PROV_ADDR_MAX + 1, 'k');
    cr_assert(ut_record_end(m.bytes, m.size) == m.size);
    cr_assert_null(ut_record_find(m.bytes, m.size, KNOWN));
    free(m.bytes);
}
