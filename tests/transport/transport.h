/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message transport over uTofu in the manner of an MPI library's: transport.c says how it works.
 * What its files know of each other, lowest first: where_jtofu.c or where_job.c, box.c, net.c,
 * message.c, lines.c.
 */
#ifndef UT_TEST_TRANSPORT_H
#define UT_TEST_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <utofu.h>

enum {
    TNIS = 6,
    MAX_RANKS = 256,
    EAGER_MAX = 992,    /* bytes of a message that go with its header */
    COLLECTIVE = 0x8000 /* tags from here on belong to lines.c */
};

/* A process that finds an error prints it and ends. */
#define FAIL(...)                                                                                  \
    do {                                                                                           \
        fprintf(stderr, "rank %d: line %d: ", where_rank(), __LINE__);                             \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        exit(1);                                                                                   \
    } while (0)
#define OK(call)                                                                                   \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != UTOFU_SUCCESS) {                                                                \
            char why_[1024] = "";                                                                  \
            utofu_get_last_error(why_);                                                            \
            FAIL("%s returned %d: %s", #call, rc_, why_);                                          \
        }                                                                                          \
    } while (0)

/* where_jtofu.c, where_job.c: the processes of the job, and where they are. */
void where_open(void);
void where_close(void);
int where_rank(void);
int where_size(void);
/* The most processes on any node. */
int where_most(void);
void where_coords(int rank, uint8_t coords[6]);
/* Coordinates in the logical grid, at each place of which there is a node. */
void where_logical(int rank, uint32_t xyz[3]);
/* The ranks of a node, ascending, at most where_most(); how many. */
int where_ranks_at_coords(uint8_t coords[6], int ranks[]);
int where_ranks_at_logical(const uint32_t xyz[3], int ranks[]);
/* The best path to a process; false: not known. */
bool where_path(int to, uint8_t path[3]);

/*
 * net.c: messages into the mailboxes of box.c, and what arrives there. A message to a process is a
 * header and up to EAGER_MAX bytes. Messages of a process come in order.
 */
struct header {
    uint32_t number; /* of the message, from its process to this one */
    uint16_t kind;
    uint16_t tag;
    uint32_t length; /* of the bytes behind the header */
    uint32_t unused;
    uint64_t request; /* what the two sides of a rendezvous agreed on */
    uint64_t sum;     /* of the fields above */
};

/* A call that is repeated while the TOQ of that TNI's VCQ is full. */
#define SUBMIT(tni, call)                                                                          \
    do {                                                                                           \
        int busy_;                                                                                 \
        while ((busy_ = (call)) == UTOFU_ERR_BUSY)                                                 \
            net_make_room(tni);                                                                    \
        OK(busy_);                                                                                 \
    } while (0)

void net_open(void);
/* Waits for all that this process has started, and gives no credits from then on. All processes
 * call it before the last lines_meet(). */
void net_settle(void);
void net_close(void);
void net_send(int to, struct header *header, const void *data);
/* How many messages wait for room in a mailbox. */
int net_waiting(void);
utofu_vcq_hdl_t net_vcq(int tni);
int net_primary(void);
void net_make_room(int tni);
/* Polls once; false: nothing has happened. */
bool net_progress(void);
/* Between calls of net_progress() that do nothing: yields, looks whether the others live; what:
 * what the caller waits for. */
void net_idle(const char *what);
/* A word of this process, which any other one can read. */
void net_set_word(uint64_t value);
uint64_t net_fetch_word(int rank);

/* message.c: messages of any length, by source and tag. */
struct request {
    int peer;
    uint16_t tag;
    void *data;
    size_t length;
    bool done;
    int tni; /* whose VCQ the data are registered on, for a rendezvous */
    utofu_stadd_t stadd;
    struct request *next;
};
/* The data stay as they are until it is done. */
void message_send(struct request *request, int to, uint16_t tag, const void *data, size_t length);
void message_receive(struct request *request, int from, uint16_t tag, void *data, size_t length);
void message_wait(struct request *request);
/* How many messages this process has fetched by rendezvous. */
uint64_t message_fetched(void);
/* What net.c calls; gets have EDATA_GETS and more as EDATA. */
enum { EDATA_GETS = 128 };
void message_arrived(int from, const struct header *header, const void *data);
void message_get_ended(unsigned int edata);
int message_source_of_get(unsigned int edata);
/* Whether gets on that VCQ have not ended. */
bool message_has_gets(int tni);

/* lines.c: barriers and sums over gates along the lines of the grid. */
void lines_open(void);
void lines_close(void);
void lines_barrier(void);
void lines_sum(uint64_t *whole, double *fraction);
void lines_extents(uint32_t xyz[3]);
/* All processes call it: a barrier by messages. */
void lines_meet(void);

#endif
