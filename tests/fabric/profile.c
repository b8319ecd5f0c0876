/* SPDX-License-Identifier: Apache-2.0 */
/* The properties of the fabric, by name, and its faults. This file calls nothing of libfabric: the
 * program with-fabric uses it, too. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric.h"

#define ALL_OF_MR                                                                                  \
    (FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED)
#define AS_IT_IS .inject = SIZE_MAX, .message = SIZE_MAX, .key_size = 8

const struct profile fabric_profiles[] = {
    {.name = "plain", .text = "libfabric's TCP as it is, but for the checks", AS_IT_IS},
    {.name = "strict-mr",
     .text = "memory is registered for all that is done with it, and bound to endpoints; keys and "
             "addresses are the fabric's",
     .mr_mode = ALL_OF_MR,
     .has_context = true,
     AS_IT_IS},
    {.name = "unordered",
     .text = "messages stay behind messages and behind nothing else; completions in any order",
     .unordered = true,
     .shuffles = true,
     .late = 4,
     AS_IT_IS},
    {.name = "late-completions",
     .text = "in the order of TCP, but late: operations and completions",
     .late = 8,
     AS_IT_IS},
    {.name = "small",
     .text = "messages of 2048 bytes, nothing is injected, queues are short, and often full",
     .message = 2048,
     .key_size = 8,
     .depth = 16,
     .busy = 3},
    {.name = "no-delivery",
     .text = "as unordered, and FI_DELIVERY_COMPLETE is refused",
     .unordered = true,
     .shuffles = true,
     .never_delivers = true,
     .late = 4,
     AS_IT_IS},
    {.name = "messages",
     .text = "no RMA; completions in any order",
     .lacks = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
     .shuffles = true,
     .late = 4,
     AS_IT_IS},
    {.name = "cxi-like",
     .text = "keys of 2 bytes that the program chooses, memory bound to endpoints; unordered",
     .calls_itself = "cxi",
     .mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED,
     .inject = 192,
     .message = SIZE_MAX,
     .key_size = 2,
     .unordered = true,
     .shuffles = true,
     .late = 4,
     .busy = 50},
    {.name = "efa-like",
     .text = "registered memory, keys and addresses of the fabric, 32 bytes injected; unordered",
     .calls_itself = "efa",
     .mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
     .inject = 32,
     .message = SIZE_MAX,
     .key_size = 8,
     .has_context = true,
     .unordered = true,
     .shuffles = true,
     .late = 4,
     .busy = 50},
    {.name = "all",
     .text = "all of it at once, but for what is refused",
     .calls_itself = "all",
     .mr_mode = ALL_OF_MR,
     .message = 4096,
     .key_size = 8,
     .depth = 32,
     .has_context = true,
     .unordered = true,
     .shuffles = true,
     .late = 4,
     .busy = 10},
    {.name = NULL},
};

const char *const fabric_fault_texts[NUM_FAULTS] = {
    "lose=N       the N-th message of each endpoint is lost, as where its connection breaks",
    "fail=N       the N-th message of each endpoint is not sent: an error",
    "refuse-mr=N  no domain takes more than N - 1 regions for peers",
};

static struct {
    const struct profile *profile;
    unsigned long faults[NUM_FAULTS];
    uint64_t seed;
} mine;
static pthread_once_t once = PTHREAD_ONCE_INIT;

const struct profile *fabric_profile_of(const char *name)
{
    for (const struct profile *p = fabric_profiles; p->name; p++) {
        if (strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}

enum fault fabric_fault_of(const char *text, unsigned long *n)
{
    const char *is = strchr(text, '=');
    char *end;

    for (int i = 0; is && i < NUM_FAULTS; i++) {
        size_t length = (size_t)(is - text) + 1;
        if (strncmp(fabric_fault_texts[i], text, length) != 0)
            continue;
        *n = strtoul(is + 1, &end, 10);
        return is[1] >= '0' && is[1] <= '9' && *end == '\0' ? (enum fault)i : NUM_FAULTS;
    }
    return NUM_FAULTS;
}

static void read_faults(void)
{
    const char *text = getenv("UT_FABRIC_FAULTS"); /* separated by blanks */
    char *copy = strdup(text ? text : ""), *rest = copy, *word;

    while (copy && (word = strsep(&rest, " "))) {
        unsigned long n = 0;
        if (!*word)
            continue;
        enum fault fault = fabric_fault_of(word, &n);
        if (fault == NUM_FAULTS)
            fabric_wrong("UT_FABRIC_FAULTS=%s", text);
        mine.faults[fault] = n;
    }
    free(copy);
}

static void read_environment(void)
{
    const char *name = getenv("UT_FABRIC_PROFILE"), *seed = getenv("UT_FABRIC_SEED");

    mine.profile = fabric_profile_of(name ? name : "plain");
    if (!mine.profile)
        fabric_wrong("UT_FABRIC_PROFILE=%s", name);
    mine.seed = seed ? strtoull(seed, NULL, 10) : 1;
    read_faults();
}

const struct profile *fabric_profile(void)
{
    pthread_once(&once, read_environment);
    return mine.profile;
}

unsigned long fabric_fault(enum fault fault)
{
    pthread_once(&once, read_environment);
    return mine.faults[fault];
}

uint64_t fabric_seed(void)
{
    pthread_once(&once, read_environment);
    return mine.seed;
}

void fabric_wrong(const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    fprintf(stderr, "fabric: %s\n", line);
    abort();
}
