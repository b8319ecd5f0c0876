/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cursor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/fail.h"

void um_cursor_fail(const struct um_cursor *c, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    um_fail(UM_EXIT_BAD, "%s: byte %zu: %s", c->path, c->at, text);
}

static void need_bytes(const struct um_cursor *c, size_t size)
{
    if (c->size - c->at < size)
        um_cursor_fail(c, "the recording ends here, within a record or block");
}

uint8_t um_take_byte(struct um_cursor *c)
{
    need_bytes(c, 1);
    return c->bytes[c->at++];
}

void um_take_bytes(struct um_cursor *c, void *to, size_t size)
{
    need_bytes(c, size);
    memcpy(to, c->bytes + c->at, size);
    c->at += size;
}

uint64_t um_take_word(struct um_cursor *c, unsigned int bytes)
{
    uint64_t value = 0;

    need_bytes(c, bytes);
    for (unsigned int i = 0; i < bytes; i++)
        value |= (uint64_t)c->bytes[c->at++] << 8 * i;
    return value;
}

uint64_t um_take_number(struct um_cursor *c)
{
    uint64_t value = 0;

    for (unsigned int shift = 0; shift < 64; shift += 7) {
        uint8_t byte = um_take_byte(c);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    um_cursor_fail(c, "a number of more than 64 bits");
}

int64_t um_take_signed(struct um_cursor *c)
{
    uint64_t value = um_take_number(c);

    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

uint64_t um_take_up_to(struct um_cursor *c, uint64_t most, const char *what)
{
    uint64_t value = um_take_number(c);

    if (value > most)
        um_cursor_fail(c, "%s %llu: the most is %llu", what, (unsigned long long)value,
                       (unsigned long long)most);
    return value;
}
