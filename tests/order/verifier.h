/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verifier of lock-free code: runs the threads of a scenario in every order, and lets each load
 * read every value that the memory model allows. The code under test is the library's own: it is
 * compiled with -fsanitize=thread, which calls a function before each access to memory, and these
 * functions are the verifier's (instead of ThreadSanitizer's).
 *
 * docs/design/verifier.md describes the models and what they leave out.
 */
#ifndef UV_VERIFIER_H
#define UV_VERIFIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UV_MAX_THREADS = 4, UV_SLOW = 1, UV_ENDLESS = 2, UV_NAMED = 3 };

/* What several threads do with objects in static memory, which setup() makes anew for each run. A
 * thread whose bit is set in `daemons` may sleep for ever. */
struct uv_scenario {
    const char *name;
    void (*setup)(void);
    void (*threads[UV_MAX_THREADS])(void);
    void (*end)(void); /* called when all threads have ended; may be NULL */
    unsigned int daemons;
    /* UV_SLOW: more than some seconds, left out with --quick; UV_ENDLESS: more states than anybody
     * has waited for; unless it is named, only with few preemptions, and not with --quick;
     * UV_NAMED: runs only if it is named */
    int slow;
};

int uv_main(int argc, char **argv, const struct uv_scenario *scenarios, size_t num);

/* Ends the run: something does not hold. */
void uv_fail(const char *what, const char *file, int line) __attribute__((noreturn));
#define UV_CHECK(what) ((what) ? (void)0 : uv_fail(#what, __FILE__, __LINE__))

/* ut_self() of the code under test. */
#define __builtin_thread_pointer() ((void *)uv_self())

/* Number of the running thread, from 1; for setup(), what uv_be() has set. */
uintptr_t uv_self(void);
void uv_be(uintptr_t self);

/* A pause of a thread that waits in a loop: it goes on when a value that it has read since the last
 * pause can be another one. */
void uv_pause(void);

/* membarrier(2) with MEMBARRIER_CMD_PRIVATE_EXPEDITED. */
void uv_membarrier(void);

/* A counter on which a thread sleeps, such as an eventfd or a socket. */
void uv_event_post(uint64_t *event);
void uv_event_wait(uint64_t *event);
/* True, and empties the counter, if it is not empty. */
bool uv_event_take(uint64_t *event);

/* The same for many descriptors: a bit of `events` is one that is readable. uv_events_poll() sleeps
 * until one of `mask` is; uv_events_now() does not sleep. Both return the bits that are. */
void uv_events_post(uint64_t *events, uint64_t bits);
uint64_t uv_events_poll(uint64_t *events, uint64_t mask);
uint64_t uv_events_now(uint64_t *events, uint64_t mask);
/* Clears the bits. True: one of them was set. */
bool uv_events_take(uint64_t *events, uint64_t bits);

void uv_mutex_lock(uint64_t *mutex);
bool uv_mutex_try(uint64_t *mutex);
void uv_mutex_unlock(uint64_t *mutex);

/* x86's lock cmpxchg16b: the first word is atomic, the second one only goes with it. */
bool uv_swap16(uint64_t *at, uint64_t vacant, uint64_t first, uint64_t second);

#endif
