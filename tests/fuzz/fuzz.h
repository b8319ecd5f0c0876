/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the targets: taking an input apart. Zeros follow its end. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

/* Returns the number of bytes taken. */
static inline size_t fuzz_bytes(struct fuzz_input *in, void *to, size_t size)
{
    size_t n = size < in->left ? size : in->left;

    memset(to, 0, size);
    if (n > 0)
        memcpy(to, in->at, n);
    in->at += n;
    in->left -= n;
    return n;
}

static inline uint8_t fuzz_byte(struct fuzz_input *in)
{
    uint8_t byte;

    fuzz_bytes(in, &byte, 1);
    return byte;
}

/* A stream socket whose peer has sent these bytes and shut it down; data sent to it are lost.
 * Inputs are shorter than a socket's buffer. */
static inline int fuzz_stream(struct fuzz_input *in, size_t size)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        __builtin_trap();
    if (size > in->left)
        size = in->left;
    if (size > 0 && send(ends[1], in->at, size, MSG_NOSIGNAL) != (ssize_t)size)
        __builtin_trap();
    in->at += size;
    in->left -= size;
    shutdown(ends[1], SHUT_WR);
    /* the other end stays open, as otherwise sending could fail before the data are read */
    if (dup2(ends[1], 900) < 0)
        __builtin_trap();
    close(ends[1]);
    return ends[0];
}

#endif
