/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from the bytes of a recording; whatever is not there ends utofu-model, with the file and
 * the place. */
#ifndef UM_CURSOR_H
#define UM_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct um_cursor {
    const char *path;
    const uint8_t *bytes;
    size_t at, size; /* `size`: end of the block, or of the file */
};

/* "FILE: byte N: ..." */
void um_cursor_fail(const struct um_cursor *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), noreturn));
uint8_t um_take_byte(struct um_cursor *c);
void um_take_bytes(struct um_cursor *c, void *to, size_t size);
uint64_t um_take_word(struct um_cursor *c, unsigned int bytes);
uint64_t um_take_number(struct um_cursor *c);
int64_t um_take_signed(struct um_cursor *c);
/* A number up to `most`; `what` is its name in the error. */
uint64_t um_take_up_to(struct um_cursor *c, uint64_t most, const char *what);

#endif
