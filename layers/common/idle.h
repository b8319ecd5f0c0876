/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How threads wait for a word in memory or for a short time, and how a layer starts a thread.
 */
#ifndef LC_IDLE_H
#define LC_IDLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A pause instruction. */
static inline void lc_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void lc_sleep_ns(long ns);
/* Yields the core. True if that took so long that another thread must have run meanwhile. */
bool lc_yield_core(void);
/* Waits while *word == value, as for a lock: spins, yields, then sleeps between checks. */
void lc_spin_while_equal(const uint32_t *word, uint32_t value);
/* The same for a word whose writer calls lc_futex_wake(): spins, then sleeps in a futex. Beside
 * processes that compute, a thread that yields waits for their time slices, while a woken thread
 * runs at once. */
void lc_futex_wait(const uint32_t *word, uint32_t value);
void lc_futex_wake(const uint32_t *word);

/* A thread that receives no signals of the program and has a short timer slack. lc_thread_start()
 * returns the code of pthread_create(). */
struct lc_thread {
    pthread_t id;
    void *(*run)(void *arg);
    void *arg;
};
int lc_thread_start(struct lc_thread *thread, void *(*run)(void *arg), void *arg);
void lc_thread_join(struct lc_thread *thread);

#pragma GCC visibility pop

#endif
