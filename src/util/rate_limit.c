/* SPDX-License-Identifier: Apache-2.0 */
/* Counts log lines, in a table of fixed size with least-recently-used replacement. */
#include "util/clock.h"
#include "util/rate_limit.h"
#include "util/hash.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SETS = 64, WAYS = 4, TEXT_MAX_BYTES = UT_RATE_LIMIT_TEXT + 4 };

struct line {
    const char *fmt;
    uint64_t hash; /* hash of the text; 0: the entry counts all lines of the format */
    uint64_t times, shown;
    uint64_t last_ms, used; /* last occurrence: time, and serial number */
    char text[TEXT_MAX_BYTES];
};

static struct {
    struct line lines[SETS][WAYS];
    uint64_t uses;
    pthread_mutex_t lock;
} limiter = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ut_rate_limit_shorten(char *text)
{
    if (strlen(text) > UT_RATE_LIMIT_TEXT)
        memcpy(text + UT_RATE_LIMIT_TEXT - 3, "...", 4);
}

static uint64_t hash_text(const char *text)
{
    return ut_hash(UT_HASH_FIRST, text, strlen(text)) | 1;
}

static struct line *find_line(const char *fmt, uint64_t hash, const char *text, uint64_t now_ms)
{
    uint64_t key = ut_hash_word((uintptr_t)fmt, hash);
    struct line *set = limiter.lines[key >> 58], *oldest = &set[0];

    for (int i = 0; i < WAYS; i++) {
        struct line *l = &set[i];
        if (l->fmt == fmt && l->hash == hash) {
            if (now_ms - l->last_ms >= UT_RATE_LIMIT_PAUSE_MS)
                l->times = l->shown = 0;
            l->last_ms = now_ms;
            l->used = ++limiter.uses;
            return l;
        }
        if (l->used < oldest->used)
            oldest = l;
    }
    *oldest = (struct line){.fmt = fmt, .hash = hash, .last_ms = now_ms, .used = ++limiter.uses};
    snprintf(oldest->text, sizeof(oldest->text), "%s", text);
    ut_rate_limit_shorten(oldest->text);
    return oldest;
}

static bool is_power_of_ten(uint64_t n)
{
    while (n % 10 == 0)
        n /= 10;
    return n == 1;
}

bool ut_rate_limit_allows(const char *fmt, const char *text, uint64_t now_ms, uint64_t *times)
{
    pthread_mutex_lock(&limiter.lock);
    struct line *equal = find_line(fmt, hash_text(text), text, now_ms);
    bool is_new = ++equal->times == 1, pass = is_power_of_ten(equal->times);
    *times = equal->times;
    equal->shown += pass;
    if (is_new) {
        struct line *like = find_line(fmt, 0, text, now_ms);
        like->times++;
        pass = like->times <= UT_RATE_LIMIT_BURST || is_power_of_ten(like->times);
        like->shown += pass;
    }
    pthread_mutex_unlock(&limiter.lock);
    return pass;
}

void ut_rate_limit_for_each(void (*report)(const char *text, uint64_t times))
{
    char text[TEXT_MAX_BYTES + 48];
    struct timespec until = ut_clock_after(CLOCK_REALTIME, 1000);

    /* if a signal handler has called exit(), it may have interrupted the holder */
    if (pthread_mutex_timedlock(&limiter.lock, &until) != 0)
        return;
    for (int i = 0; i < SETS * WAYS; i++) {
        struct line *l = &limiter.lines[i / WAYS][i % WAYS];
        if (l->times == l->shown || !l->fmt)
            continue;
        snprintf(text, sizeof(text), l->hash ? "%s" : "%s (and others like it)", l->text);
        report(text, l->times);
    }
    pthread_mutex_unlock(&limiter.lock);
}
