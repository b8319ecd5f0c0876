/* SPDX-License-Identifier: Apache-2.0 */
/* The typed table of environment variables; uses util/key.h and libc. */
#include "util/env.h"
#include "util/key.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>

#include "providers.h"

#define OTHER(names, who)
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
#undef OTHER
};

/* variables of other software: a|b|c */
static const char *const others[] = {
#define X(...)
#define OTHER(names, who) names,
#include "util/env_table.h"
#undef X
#undef OTHER
};

static const char prefix[] = "UTOFU_";
enum { PREFIX_LENGTH = sizeof(prefix) - 1, NAME_MAX_LENGTH = 48 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int load_result;
static char load_error[512];

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

static int parse_list(const char *choices, const char *text)
{
    char item[NAME_MAX_LENGTH];
    uint64_t index;
    int rc = -EINVAL; /* of an empty list */

    while (ut_env_next_item(&text, item, sizeof(item))) {
        rc = parse_choice(choices, item, &index);
        if (rc != 0)
            break;
    }
    return rc;
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
    struct ut_key key;
    uint64_t n = 0;
    int rc = 0;

    switch (entry->type) {
    case UT_ENV_TYPE_STR:
        break;
    case UT_ENV_TYPE_LIST:
        rc = parse_list(entry->choices, text);
        break;
    case UT_ENV_TYPE_KEY:
        rc = ut_key_parse(text, &key);
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
        if (rc != 0 && strncmp(entry->choices, "0|1|", 4) == 0) {
            rc = parse_choice(yes_no, text, &n);
            n = n >= 4;
        }
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
    case UT_ENV_TYPE_LIST:
        snprintf(buf, size, "a list of %s", e->choices);
        break;
    case UT_ENV_TYPE_STR:
        snprintf(buf, size, "a text");
        break;
    case UT_ENV_TYPE_KEY:
        snprintf(buf, size, "%d to %d hexadecimal digits", 2 * UT_KEY_MIN, 2 * UT_KEY_MAX);
        break;
    }
}

/*
 * Unknown names
 */

static bool is_ours(const char *name, size_t length)
{
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return true;
    }
    return false;
}

static bool is_of_others(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        for (const char *p = others[i]; *p; p += *p == '|') {
            size_t n = strcspn(p, "|");
            if (n == length && memcmp(p, name, length) == 0)
                return true;
            p += n;
        }
    }
    return false;
}

const char *ut_env_next_unknown(char ***at, size_t *length)
{
    while (*at && **at) {
        const char *name = *(*at)++;
        size_t n = strcspn(name, "=");
        if (n < PREFIX_LENGTH || memcmp(name, prefix, PREFIX_LENGTH) != 0 || is_ours(name, n) ||
            is_of_others(name, n))
            continue;
        *length = n;
        return name;
    }
    return NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance: letters to insert, delete, replace, or exchange with the next one. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t d[NAME_MAX_LENGTH + 1][NAME_MAX_LENGTH + 1];

    for (size_t i = 0; i <= na; i++) {
        for (size_t j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                            least(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[na][nb];
}

const char *ut_env_nearest(const char *name, size_t length)
{
    const char *nearest = NULL, *rest = name + PREFIX_LENGTH;
    size_t n = length - PREFIX_LENGTH, best = 2 + n / 3; /* further away is not similar */

    if (length <= PREFIX_LENGTH || length > NAME_MAX_LENGTH)
        return NULL;
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const char *known = table[i].name + PREFIX_LENGTH;
        size_t nk = strlen(known);
        if (nk > NAME_MAX_LENGTH)
            continue;
        size_t d = distance(rest, n, known, nk);
        /* UTOFU_DEVICES: part of a name, however long */
        if (n >= 4 && nk > n && memmem(known, nk, rest, n))
            d = 1;
        if (d < best) {
            best = d;
            nearest = table[i].name;
        }
    }
    return nearest;
}

bool ut_env_next_item(const char **list, char *item, size_t size)
{
    static const char between[] = ", \t";
    const char *p = *list + strspn(*list, between);
    size_t n = strcspn(p, between);

    snprintf(item, size, "%.*s", (int)n, p);
    *list = p + n;
    return n > 0;
}

const char *ut_env_text(const char *name)
{
    return secure_getenv(name);
}

bool ut_env_is_foreign(void)
{
    return getauxval(AT_SECURE) != 0;
}

/* Prints the line. The value of a key is not shown. */
static void refuse(const struct ut_env_entry *e, const char *text)
{
    char allowed[160], line[sizeof(load_error)];

    ut_env_allowed(e, allowed, sizeof(allowed));
    if (e->type == UT_ENV_TYPE_KEY)
        snprintf(line, sizeof(line), "environment variable %s: not allowed; it takes %s", e->name,
                 allowed);
    else
        snprintf(line, sizeof(line), "environment variable %s: '%s' is not allowed; it takes %s",
                 e->name, text, allowed);
    fprintf(stderr, "utofu: %s\n", line);
    if (load_result == 0)
        memcpy(load_error, line, sizeof(load_error));
    load_result = -EINVAL;
}

/* Kept for the life of the process: setenv() may move the original. */
static char *keep_text(const struct ut_env_entry *e, const char *text)
{
    if (e->is_set)
        return strdup(text);
    if (e->type == UT_ENV_TYPE_LIST)
        return strndup(e->choices, strcspn(e->choices, "|"));
    return strdup(e->choices);
}

static void load(void)
{
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        struct ut_env_entry *e = &table[i];
        const char *text = ut_env_text(e->name);

        e->is_set = text != NULL && *text != '\0';
        if (e->type == UT_ENV_TYPE_LIST || e->type == UT_ENV_TYPE_STR ||
            e->type == UT_ENV_TYPE_KEY) {
            e->str = keep_text(e, text);
            if (!e->str)
                e->str = "";
        }
        if (e->is_set && ut_env_parse(e, text, &e->value) != 0)
            refuse(e, text);
    }
}

int ut_env_load(void)
{
    pthread_once(&once, load);
    return load_result;
}

const char *ut_env_error(void)
{
    return load_error;
}

const struct ut_env_entry *ut_env_get(enum ut_env_id id)
{
    pthread_once(&once, load);
    return &table[id];
}
