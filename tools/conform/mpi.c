/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange by messages of MPI: with -DCONFORM_MPI. A record is sent to each other process at
   once and kept there until the round is forgotten, so that no process waits for one that has left
   the case. */
#ifdef CONFORM_MPI
#    include "exchange.h"
#    include "frame.h"
#    include <mpi.h>
#    include <stdio.h>
#    include <stdlib.h>
#    include <string.h>

struct header {
    unsigned round, step;
    int kind;
};

struct message {
    struct message *next;
    int rank;
    size_t size; /* of the bytes behind the header */
    struct header header;
    MPI_Request request; /* of one that is sent */
    unsigned char bytes[1];
};

static struct {
    int rank, size;
    struct message *come, *sent;
} mpi;

static struct message *new_message(size_t size)
{
    struct message *m = malloc(sizeof(*m) + size);
    if (m == NULL) {
        fprintf(stderr, "utofu-conform: no memory for a message\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return m;
}

/* What is sent lies behind one another: header and bytes */
static unsigned char *wire_of(struct message *m)
{
    return m->bytes;
}

static void reap_sent(void)
{
    struct message **at = &mpi.sent;
    while (*at != NULL) {
        struct message *m = *at;
        int done;
        MPI_Test(&m->request, &done, MPI_STATUS_IGNORE);
        if (done) {
            *at = m->next;
            free(m);
        } else {
            at = &m->next;
        }
    }
}

static void receive_all(void)
{
    for (;;) {
        MPI_Status status;
        struct message *m;
        int there, count;
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &there, &status);
        if (!there)
            return;
        MPI_Get_count(&status, MPI_BYTE, &count);
        m = new_message((size_t)count);
        MPI_Recv(wire_of(m), count, MPI_BYTE, status.MPI_SOURCE, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        memcpy(&m->header, wire_of(m), sizeof(m->header));
        m->rank = status.MPI_SOURCE;
        m->size = (size_t)count - sizeof(m->header);
        m->next = mpi.come;
        mpi.come = m;
    }
}

int cf_exchange_open(int *argc, char ***argv, int *rank, int *size)
{
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi.size);
    *rank = mpi.rank;
    *size = mpi.size;
    if (mpi.size > CF_MAX_SIZE) {
        fprintf(stderr, "utofu-conform: %d processes; at most %d\n", mpi.size, CF_MAX_SIZE);
        MPI_Finalize();
        return 0;
    }
    return 1;
}

void cf_exchange_give(unsigned round, enum cf_record kind, unsigned step, const void *bytes,
                      size_t size)
{
    int rank;
    for (rank = 0; rank < mpi.size; rank++) {
        struct message *m;
        if (rank == mpi.rank)
            continue;
        m = new_message(sizeof(m->header) + size);
        m->header.round = round;
        m->header.step = step;
        m->header.kind = (int)kind;
        memcpy(wire_of(m), &m->header, sizeof(m->header));
        if (size > 0)
            memcpy(wire_of(m) + sizeof(m->header), bytes, size);
        MPI_Isend(wire_of(m), (int)(sizeof(m->header) + size), MPI_BYTE, rank, 1, MPI_COMM_WORLD,
                  &m->request);
        m->next = mpi.sent;
        mpi.sent = m;
    }
    reap_sent();
}

int cf_exchange_have(int rank, unsigned round, enum cf_record kind, unsigned step, void *bytes,
                     size_t size)
{
    const struct message *m;
    receive_all();
    reap_sent();
    for (m = mpi.come; m != NULL; m = m->next)
        if (m->rank == rank && m->header.round == round && m->header.kind == (int)kind &&
            m->header.step == step && m->size == size) {
            if (size > 0)
                memcpy(bytes, m->bytes + sizeof(m->header), size);
            return 1;
        }
    return 0;
}

void cf_exchange_forget(unsigned round)
{
    struct message **at = &mpi.come;
    while (*at != NULL) {
        struct message *m = *at;
        if (m->header.round <= round) {
            *at = m->next;
            free(m);
        } else {
            at = &m->next;
        }
    }
}

void cf_exchange_close(int lost)
{
    if (lost) {
        MPI_Abort(MPI_COMM_WORLD, 3);
        return;
    }
    while (mpi.sent != NULL) {
        receive_all();
        reap_sent();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    receive_all();
    cf_exchange_forget((unsigned)-1);
    MPI_Finalize();
}
#else
extern int cf_exchange_is_by_folder; /* ISO C forbids an empty file */
#endif
