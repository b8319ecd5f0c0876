/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of the provider tests: N forked processes, each with a provider opened, a background
 * thread for its progress(), endpoints and connections that record the arguments of their
 * callbacks. Uses a provider only through provider.h.
 *
 * A failed CHECK ends the process; the parent then ends the others. The only time limit is a
 * deadline for each test, which begins anew as long as its processes come to barriers.
 */
#ifndef PEERS_H
#define PEERS_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "provider.h"

enum { MAX_RANKS = 8, MAX_ENDS = 16, MAX_LINKS = 512, MAX_CELLS = 64, MAX_MEMORIES = 16 };

#define CHECK(cond, ...)                                                                           \
    do {                                                                                           \
        if (!(cond))                                                                               \
            check_failed(__FILE__, __LINE__, #cond, " " __VA_ARGS__);                              \
    } while (0)

void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

/* A connection. */
struct link {
    struct end *end;
    struct prov_conn *conn;
    uint64_t peer_id;
    bool up, down, accepted;
    enum prov_reason reason;
    uint8_t hello[PROV_PRIVATE_DATA_MAX];
    size_t hello_size;
    uint64_t posted;              /* cookie of the last operation */
    uint64_t outstanding;         /* operations that will still be reported */
    uint8_t is_unsignalled[4096]; /* by cookie: posted with PROV_UNSIGNALLED */
    uint64_t num_unsignalled;     /* unsignalled_done() calls */
    uint64_t num_failed;
    enum prov_status failure; /* status of the first that failed */
    uint64_t num_messages, num_notices;
    void (*on_message)(struct link *link, const void *data, size_t size);
    void (*on_notify)(struct link *link, uint32_t imm);
    void *arg;
};

enum policy { ACCEPT, REJECT };

struct end {
    struct prov_ep *ep;
    uint64_t id;
    enum policy policy;
    unsigned int num_requests;
    sem_t woken;
    void (*on_message)(struct link *link, const void *data, size_t size);
    void (*on_notify)(struct link *link, uint32_t imm);
    void (*on_accepted)(struct link *link);
    void *arg;
    struct link *links[MAX_LINKS];
    unsigned int num_links;
    struct end *next_closed;
};

/* Registered memory, and the numbers that peers need to use it. */
struct memory {
    uint8_t *bytes;
    size_t size;
    struct prov_mr *mr;
};

struct remote {
    uint64_t addr;
    uint32_t rkey;
};

/* Shared by all processes of a test. */
struct world {
    uint8_t addr[MAX_RANKS][PROV_ADDR_MAX];
    uint64_t addr_size[MAX_RANKS];
    int64_t pids[MAX_RANKS];
    uint64_t arrived[MAX_RANKS]; /* barriers that a process has reached */
    uint64_t barriers_at_deadline, deadlines;
    uint32_t deadline_s;
    uint64_t cells[MAX_CELLS];
    struct remote remotes[MAX_RANKS][MAX_CELLS];
};

extern struct world *world;
extern int rank, size;
extern uint64_t seed;
extern const struct prov_ops *ops;
extern struct prov *prov;

struct test {
    const char *name;
    int ranks;
    void (*body)(void);
    unsigned int may_die; /* ranks (bits) that are killed */
};

/* Runs the tests named on the command line, or all; with -d in processes that are not dumpable. */
int run_tests(int argc, char **argv, const struct test *tests, size_t num_tests);

uint64_t random_u64(void);
static inline uint64_t below(uint64_t n)
{
    return random_u64() % n;
}

static inline uint64_t cell(int i)
{
    return __atomic_load_n(&world->cells[i], __ATOMIC_SEQ_CST);
}
static inline void set_cell(int i, uint64_t v)
{
    __atomic_store_n(&world->cells[i], v, __ATOMIC_SEQ_CST);
}

/* Polls all endpoints once; yields if nothing arrived. */
int pump(void);
/* Polls until the condition holds. */
#define pump_until(cond)                                                                           \
    do {                                                                                           \
        while (!(cond))                                                                            \
            pump();                                                                                \
    } while (0)
/* Closes everything, as at the end of a process. */
void close_provider(void);

/* Waits for all processes, polling. */
void barrier(void);
/* The same without polling: no callback is called. */
void barrier_without_polling(void);
/* Lets the deadline come now, and returns when the parent has decided. */
void let_deadline_come(void);
/* Barriers no longer wait for this process. */
void mark_gone(int rank);

struct end *end_open(uint64_t id);
void end_close(struct end *end);
struct link *link_ask(struct end *end, int to, uint64_t peer_id);
/* Asks until the connection is up: for peers that may not be there yet or ask at the same time. */
struct link *link_to(struct end *end, int to, uint64_t peer_id);
struct link *link_find(struct end *end, uint64_t peer_id);
/* Two processes with an endpoint each connect them; rank 0 asks. `other` is the peer's. */
struct link *pair_up(struct end *end, uint64_t other);
void link_close(struct link *link);
/* Frees the links whose connections are down. */
void links_forget_down(struct end *end);

struct memory memory_new(size_t size, unsigned int access);
/* Deregisters the memory before the end of the test. */
void memory_withdraw(struct memory *m);
/* Publishes the memory to all processes, under a number. */
void memory_publish(const struct memory *m, int number);
struct remote memory_of(int whose, int number);

/* Post, polling while there is no room. Return the provider's code. */
int post_write(struct link *link, const struct memory *m, size_t at, uint64_t rmt, uint32_t rkey,
               uint32_t length, uint32_t flags, uint32_t imm);
int post_read(struct link *link, const struct memory *m, size_t at, uint64_t rmt, uint32_t rkey,
              uint32_t length, uint32_t flags);
/* With write_inline(), 1 byte or more. */
int post_few(struct link *link, const void *data, uint64_t rmt, uint32_t rkey, uint32_t length);
int post_send(struct link *link, const void *data, size_t length, uint32_t flags);
/* The same with all fields given. */
int post_xfer(struct link *link, bool write, struct prov_xfer *x);
/* Signals unsignalled operations, and waits for all reports. */
void settle(struct link *link);

void fill(uint8_t *bytes, size_t n, uint64_t pattern);
bool is_filled(const uint8_t *bytes, size_t n, uint64_t pattern);

#endif
