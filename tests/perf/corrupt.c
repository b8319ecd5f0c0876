/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For LD_PRELOAD: damages the data that utofu-perf --verify sends, so that the test sees utofu-perf
 * find it. In the process with UTOFU_RANK=CORRUPT_RANK each call of clock_gettime() changes the
 * byte CORRUPT_BYTE of the buffer allocated last; utofu-perf reads the clock between writing the
 * data and sending them. It reads this clock, as it is not told that the kernel keeps time by the
 * CPU's counter.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint8_t *buffer;
static size_t buffer_size;

static size_t number(const char *name)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : SIZE_MAX;
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size)
{
    void *(*real)(size_t, size_t) = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");

    void *memory = real(alignment, size);
    if (memory && alignment == 4096) {
        buffer = memory;
        buffer_size = size;
    }
    return memory;
}

/* The buffer is never freed: threads read the clock until the process ends. */
__attribute__((visibility("default"))) void free(void *memory)
{
    static void (*real)(void *);

    if (!real)
        real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    if (!memory || memory != buffer)
        real(memory);
}

__attribute__((visibility("default"))) FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");

    return strstr(path, "current_clocksource") ? NULL : real(path, mode);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
    int (*real)(clockid_t, struct timespec *) =
        (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    size_t byte = number("CORRUPT_BYTE");

    if (clock == CLOCK_MONOTONIC && byte < buffer_size &&
        number("UTOFU_RANK") == number("CORRUPT_RANK"))
        buffer[byte] ^= 0x10;
    return real(clock, time);
}
