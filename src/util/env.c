/* SPDX-License-Identifier: Apache-2.0 */
/* The typed table of environment variables; uses nothing but libc. */
#include "util/env.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct ut_env_entry table[UT_ENV_COUNT] = {
#define X(id, name_, type_, def_, min_, max_, choices_, help_)                                     \
    [UT_ENV_##id] = {.name = name_,                                                                \
                     .type = UT_ENV_TYPE_##type_,                                                  \
                     .def = def_,                                                                  \
                     .min = min_,                                                                  \
                     .max = max_,                                                                  \
                     .choices = choices_,                                                          \
                     .help = help_,                                                                \
                     .value = def_},
#include "util/env_table.h"
#undef X
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int load_result;

/* A decimal number, optionally with the suffix Ki or Mi. */
static int parse_number(const char *text, bool suffix, uint64_t *value)
{
    char *end;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno)
        return -EINVAL;
    if (suffix && strcasecmp(end, "ki") == 0)
        n = n > UINT64_MAX >> 10 ? UINT64_MAX : n << 10;
    else if (suffix && strcasecmp(end, "mi") == 0)
        n = n > UINT64_MAX >> 20 ? UINT64_MAX : n << 20;
    else if (*end)
        return -EINVAL;
    *value = n;
    return 0;
}

static int parse_choice(const char *choices, const char *text, uint64_t *value)
{
    size_t len = strlen(text);

    for (uint64_t i = 0; choices; i++) {
        const char *bar = strchr(choices, '|');
        size_t n = bar ? (size_t)(bar - choices) : strlen(choices);
        if (n == len && strncasecmp(choices, text, n) == 0) {
            *value = i;
            return 0;
        }
        choices = bar ? bar + 1 : NULL;
    }
    return -EINVAL;
}

static uint64_t nearest_mrq_size(uint64_t n)
{
    uint64_t best = 2048;

    /* sizes grow by four; a tie goes to the larger one */
    for (uint64_t size = 2048; size <= 2097152; size *= 4) {
        uint64_t d = n > size ? n - size : size - n;
        uint64_t b = n > best ? n - best : best - n;
        if (d <= b)
            best = size;
    }
    return best;
}

int ut_env_parse(const struct ut_env_entry *entry, const char *text, uint64_t *value)
{
    static const char yes_no[] = "0|no|off|false|1|yes|on|true";
    uint64_t n = 0;
    int rc = 0;

    switch (entry->type) {
    case UT_ENV_TYPE_STR:
        break;
    case UT_ENV_TYPE_UINT:
        rc = parse_number(text, false, &n);
        if (rc == 0 && (n < entry->min || n > entry->max))
            rc = -EINVAL;
        break;
    case UT_ENV_TYPE_MRQ:
        rc = parse_number(text, true, &n);
        n = nearest_mrq_size(n);
        break;
    case UT_ENV_TYPE_FLAG:
        rc = parse_number(text + (*text == '-'), false, &n);
        n = n != 0;
        break;
    case UT_ENV_TYPE_BOOL:
        rc = parse_choice(yes_no, text, &n);
        n = n >= 4;
        break;
    case UT_ENV_TYPE_ENUM:
        rc = parse_choice(entry->choices, text, &n);
        break;
    }
    if (rc == 0)
        *value = n;
    return rc;
}

void ut_env_allowed(const struct ut_env_entry *e, char *buf, size_t size)
{
    switch (e->type) {
    case UT_ENV_TYPE_UINT:
        snprintf(buf, size, "a number from %llu to %llu", (unsigned long long)e->min,
                 (unsigned long long)e->max);
        break;
    case UT_ENV_TYPE_MRQ:
        snprintf(buf, size, "a number or one of %s", e->choices);
        break;
    case UT_ENV_TYPE_FLAG:
        snprintf(buf, size, "an integer");
        break;
    case UT_ENV_TYPE_BOOL:
        snprintf(buf, size, "0 or 1");
        break;
    case UT_ENV_TYPE_ENUM:
        snprintf(buf, size, "one of %s", e->choices);
        break;
    case UT_ENV_TYPE_STR:
        snprintf(buf, size, "a text");
        break;
    }
}

static void load(void)
{
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        struct ut_env_entry *e = &table[i];
        const char *text = getenv(e->name);

        e->is_set = text != NULL && *text != '\0';
        if (e->type == UT_ENV_TYPE_STR) {
            /* kept for the life of the process: setenv() may move the original */
            e->str = e->is_set ? strdup(text) : e->choices;
            if (!e->str)
                e->str = "";
            continue;
        }
        if (e->is_set && ut_env_parse(e, text, &e->value) != 0) {
            char allowed[128];
            ut_env_allowed(e, allowed, sizeof(allowed));
            fprintf(stderr, "utofu: environment variable %s: '%s' is not allowed; it takes %s\n",
                    e->name, text, allowed);
            load_result = -EINVAL;
        }
    }
}

int ut_env_load(void)
{
    pthread_once(&once, load);
    return load_result;
}

const struct ut_env_entry *ut_env_get(enum ut_env_id id)
{
    pthread_once(&once, load);
    return &table[id];
}
