/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait: for a word of memory, for a short time; and how a thread of a layer is
 * started.
 */
#ifndef LC_IDLE_H
#define LC_IDLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* A moment, on this core. */
static inline void lc_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void lc_sleep_ns(long ns);
/* Yields. Another thread wants this core if that takes long. */
bool lc_yield_is_contended(void);
/* Until a word, of a lock for instance, has another value: spins, yields, then sleeps. */
void lc_spin_wait(const uint32_t *word, uint32_t value);
/* The same for a word whose changes are told by lc_futex_wake(): spins, then sleeps. Beside other
 * programs that compute, a thread that yields gets its core back after their time slices, and one
 * that is woken at once. */
void lc_futex_wait(const uint32_t *word, uint32_t value);
void lc_futex_wake(const uint32_t *word);

/* A thread that takes no signals of the program, and whose naps are not prolonged by the kernel.
 * Returns the code of pthread_create(). */
struct lc_thread {
    pthread_t id;
    void *(*run)(void *arg);
    void *arg;
};
int lc_thread_start(struct lc_thread *thread, void *(*run)(void *arg), void *arg);
void lc_thread_join(struct lc_thread *thread);

#pragma GCC visibility pop

#endif
