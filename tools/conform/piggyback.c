/* SPDX-License-Identifier: Apache-2.0 */
/* Cases of utofu_put_piggyback() and utofu_put_piggyback8(): puts whose data travel in the
   descriptor (2.2.3, 3.7.1.5, 3.7.1.6). */
#include "families.h"
#include "transfers.h"
#include <string.h>

CF_FAMILY(piggyback, CF_PIGGYBACK);
CF_FAMILY(piggyback8, CF_PIGGYBACK8);

static void try_lengths_to(struct cf *c, enum cf_function f, size_t max)
{
    size_t lengths[64], i;
    if (max > 64)
        max = 64;
    for (i = 0; i < max; i++)
        lengths[i] = i + 1;
    cf_try_lengths(c, f, lengths, max, 80);
}

static void run_lengths(struct cf *c)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    if (caps != NULL)
        try_lengths_to(c, CF_PIGGYBACK, caps->max_piggyback_size);
}

CF_RUN(run_lengths8, try_lengths_to(c, CF_PIGGYBACK8, 8));
CF_RUN(run_places, cf_try_places(c, CF_PIGGYBACK, 21));
CF_RUN(run_places8, cf_try_places(c, CF_PIGGYBACK8, 7));

/* Puts over the border of two cache lines, at each place */
static void run_lines(struct cf *c)
{
    const struct utofu_onesided_caps *caps = cf_caps(c);
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m[64];
    size_t i, count;
    if (caps == NULL || !cf_begin(c, &e, &b, 64 * 512))
        return;
    count = caps->max_piggyback_size < 64 ? caps->max_piggyback_size : 64;
    for (i = 0; i < count; i++) {
        m[i] = cf_comm_at(&e, CF_PIGGYBACK, i, i * 512 + 256 - i, caps->max_piggyback_size);
        m[i].flags = CF_LCL;
        if (!cf_box_begin(&b, &m[i]))
            return;
    }
    if (cf_box_wait(&b, 0, count, 0) && cf_meet(c) && cf_check_recv(c, &e, m, count))
        cf_close(c, &e);
}

/* Each put takes its bytes from one array that no VCQ knows, and that is overwritten as soon as the
 * call returns */
static void run_overwritten(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    unsigned char data[24];
    size_t i, j;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    for (i = 0; i < 200; i++) {
        memset(data, (int)i + 1, sizeof(data));
        m = cf_comm_at(&e, CF_PIGGYBACK, 0, i * 32, sizeof(data));
        m.data = data;
        m.flags = CF_LCL;
        if (!cf_box_begin(&b, &m))
            return;
        memset(data, 0xee, sizeof(data));
    }
    if (!cf_box_wait(&b, 0, 200, 0) || !cf_meet(c))
        return;
    for (i = 0; i < 200; i++)
        for (j = 0; j < sizeof(data); j++)
            CF_NEED(c, e.recv[i * 32 + j] == i + 1, "byte %lu of put %lu is %#x", (unsigned long)j,
                    (unsigned long)i, e.recv[i * 32 + j]);
    cf_close(c, &e);
}

/* The whole value on an aligned word gives the word; fewer bytes give its lower bits and leave the
 * rest of the word */
static void run_low_bits(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    const uint64_t value = 0xf1e2d3c4b5a69788u;
    uint32_t word4;
    uint16_t word2;
    size_t length;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    for (length = 1; length <= 8; length++) {
        m = cf_comm_at(&e, CF_PIGGYBACK8, 0, length * 16, length);
        m.data8 = value;
        if (!cf_box_complete(&b, m))
            return;
    }
    if (!cf_meet(c))
        return;
    cf_check_word(c, &e, 8 * 16, value);
    memcpy(&word4, e.recv + 4 * 16, sizeof(word4));
    CF_HOLDS(c, word4 == (uint32_t)value, "4 bytes are %#lx", (unsigned long)word4);
    memcpy(&word2, e.recv + 2 * 16, sizeof(word2));
    CF_HOLDS(c, word2 == (uint16_t)value, "2 bytes are %#x", (unsigned)word2);
    CF_HOLDS(c, e.recv[16] == (uint8_t)value, "1 byte is %#x", e.recv[16]);
    for (length = 1; length <= 8; length++)
        CF_HOLDS(c, e.recv[length * 16 + length] == 0 && e.recv[length * 16 - 1] == 0,
                 "a put of %lu bytes changed a neighbour", (unsigned long)length);
    cf_close(c, &e);
}

/* The data lie in memory that is registered on no VCQ */
static void run_unregistered(struct cf *c)
{
    struct cf_ends e;
    struct cf_box b;
    struct cf_comm m;
    unsigned char *data = cf_alloc(8192);
    if (cf_begin(c, &e, &b, 8192)) {
        memcpy(data, e.send, 8192);
        m = cf_comm_to_next(&e, CF_PIGGYBACK);
        m.data = data + m.lcl_at;
        if (cf_box_complete(&b, m) && cf_meet(c) && cf_check_recv(c, &e, &m, 1))
            cf_close(c, &e);
    }
    cf_free(data);
}

CF_RUN(run_zero, cf_see_zero(c, CF_PIGGYBACK));
CF_RUN(run_zero8, cf_see_zero(c, CF_PIGGYBACK8));

static void see_longer(struct cf *c, enum cf_function f, size_t length)
{
    struct cf_ends e;
    struct cf_box b;
    if (!cf_begin(c, &e, &b, 8192))
        return;
    cf_see_refusal(c, &e, &b, cf_comm_at(&e, f, 72, 328, length));
    cf_close(c, &e);
}

CF_RUN(run_longer8, see_longer(c, CF_PIGGYBACK8, 9));

static const struct cf_case cases[] = {
    CF_FAMILY_CASES(piggyback, "piggyback", "3.7.1.5", 19, 0, "puts the bytes", 19),
    CF_FAMILY_CASES(piggyback8, "piggyback8", "3.7.1.6", 19, 0, "puts the bytes", 19),
    {"piggyback-lengths", "3.7.1.5", 2, CF_PROMISED, 0,
     "Puts of each length up to max_piggyback_size move these bytes and no others.", run_lengths},
    {"piggyback8-lengths", "3.7.1.6", 2, CF_PROMISED, 0,
     "Puts of each length up to 8 move these bytes and no others.", run_lengths8},
    {"piggyback-places", "3.7.1.5", 3, CF_PROMISED, 0,
     "The remote STADD and the pointer may have any alignment.", run_places},
    {"piggyback8-places", "3.7.1.6", 4, CF_PROMISED, 0, "The remote STADD may have any alignment.",
     run_places8},
    {"piggyback-lines", "3.7.1.5", 3, CF_PROMISED, 0,
     "The target may lie in two cache lines, with any part in each.", run_lines},
    {"piggyback-overwritten", "3.7.1.5", 9, CF_PROMISED, 0,
     "The data may be overwritten as soon as the call returns.", run_overwritten},
    {"piggyback-unregistered", "2.2.3", 36, CF_PROMISED, 0,
     "The local memory need not be registered.", run_unregistered},
    {"piggyback8-low-bits", "3.7.1.6", 3, CF_PROMISED, 0,
     "Of less than 8 bytes the lower bits of the value are put.", run_low_bits},
    {"piggyback-zero", "3.7.1.5", 0, CF_UNSAID, 0,
     "What does a piggyback put of 0 bytes return and report?", run_zero},
    {"piggyback8-zero", "3.7.1.6", 0, CF_UNSAID, 0,
     "What does a put of 0 bytes of a value return and report?", run_zero8},
    {"piggyback8-longer", "3.7.1.6", 0, CF_UNSAID, 0, "What does a put of 9 bytes of a value do?",
     run_longer8},
};
CF_GROUP(piggyback_group, "piggyback", cases);
