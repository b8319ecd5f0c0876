/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: the MPI library of this process and the launcher send arbitrary bytes on the
 * shared socket, in pieces of any size, and this library sends requests in between.
 */
#include <stdlib.h>

#include "../../src/bootstrap/pmi1_share.c"

#include "fuzz.h"

static int mpi_end, launcher_end;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

static void open_pair(int *ours, int *theirs)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        abort();
    *ours = ends[0];
    *theirs = ends[1];
}

static void swallow(int fd)
{
    char text[CHUNK];

    while (recv(fd, text, sizeof(text), MSG_DONTWAIT) > 0)
        ;
}

static void ask(struct fuzz_input *in)
{
    char line[64];

    if (ut_job_pmi1_enter() != 0)
        return;
    size_t n = fuzz_bytes(in, line, sizeof(line) - 1);
    line[n] = '\0';
    ut_job_pmi1_forward_to_mpi(line);
    ut_job_pmi1_leave();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};

    open_pair(&share.mpi, &mpi_end);
    open_pair(&share.launcher, &launcher_end);
    share.state = MPI_IDLE;
    share.several = false;
    share.have = 0;
    share.word[0] = '\0';
    while (in.left > 0) {
        uint8_t how = fuzz_byte(&in), piece[256];
        size_t n = fuzz_bytes(&in, piece, fuzz_byte(&in));
        bool launcher = how & 1;
        if (n > 0 && send(launcher ? launcher_end : mpi_end, piece, n, MSG_NOSIGNAL) < 0)
            abort();
        if (n > 0 && !(launcher ? from_launcher() : from_mpi()))
            abort();
        if (how & 2)
            ask(&in);
        swallow(mpi_end);
        swallow(launcher_end);
        if (share.have >= sizeof(share.word))
            abort();
    }
    close(share.mpi);
    close(share.launcher);
    close(mpi_end);
    close(launcher_end);
    return 0;
}
