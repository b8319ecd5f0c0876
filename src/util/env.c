/* SPDX-License-Identifier: Apache-2.0 */
/* The typed table of environment variables; uses util/key.h and libc. */
#include "util/env.h"
#include "util/ascii.h"
#include "util/key.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "providers.h"

#define FIELDS(type_, def_, min_, max_, choices_, help_)                                           \
    .type = UT_ENV_TYPE_##type_, .def = def_, .min = min_, .max = max_, .choices = choices_,       \
    .help = help_, .value = def_
#define OTHER(names, who)
static struct ut_env_entry table[UT_ENV_COUNT] = {
#define X(id, name_, ...) [UT_ENV_##id] = {.name = name_, FIELDS(__VA_ARGS__)},
#define OPTION(id, of, name_, old, ...)                                                            \
    [UT_ENV_##id] = {                                                                              \
        .name = name_, .variable = &table[UT_ENV_##of], .old_name = old, FIELDS(__VA_ARGS__)},
#include "util/env_table.h"
#undef OPTION
#undef X
#undef OTHER
};
#undef FIELDS

/* UTOFU_ variables of other software: a|b|c */
static const char *const others[] = {
#define X(...)
#define OPTION(...)
#define OTHER(names, who) names,
#include "util/env_table.h"
#undef OPTION
#undef X
#undef OTHER
};

static const char prefix[] = "UTOFU_";
enum {
    PREFIX_LENGTH = sizeof(prefix) - 1,
    NAME_MAX_LENGTH = 48,
    SHORT_NAME = 6, /* names with fewer letters behind the prefix are short: one other letter makes
                     * another word */
};

static void load_table(void);
static struct {
    pthread_once_t once;
    int result;
    char error[512];
    char *copies[UT_ENV_COUNT]; /* copies of the values, cut at the options */
} loaded = {.once = PTHREAD_ONCE_INIT};

/* A decimal number, optionally with the suffix Ki or Mi. */
static int parse_number(const char *text, bool suffix, uint64_t *value)
{
    char *end;

    if (!ut_is_digit(*text))
        return -EINVAL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno)
        return -EINVAL;
    if (suffix && ut_same_word(end, "ki"))
        n = n > UINT64_MAX >> 10 ? UINT64_MAX : n << 10;
    else if (suffix && ut_same_word(end, "mi"))
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
        if (n == len && ut_same_start(choices, text, n)) {
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
    int rc = -EINVAL; /* an empty list is an error */

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

    /* sizes grow by factors of four; the larger of two equally near sizes wins */
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
    case UT_ENV_TYPE_OPTIONS:
        rc = -EINVAL;
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

/* Writes the names of the options of a variable: "sq_depth, srq_depth, inline". */
static void list_options(const struct ut_env_entry *variable, char *buf, size_t size)
{
    size_t used = 0;

    *buf = '\0';
    for (int i = 0; i < UT_ENV_COUNT && used < size; i++) {
        if (table[i].variable == variable)
            used +=
                (size_t)snprintf(buf + used, size - used, "%s%s", used ? ", " : "", table[i].name);
    }
}

void ut_env_allowed(const struct ut_env_entry *e, char *buf, size_t size)
{
    char options[128];

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
    case UT_ENV_TYPE_OPTIONS:
        list_options(e, options, sizeof(options));
        snprintf(buf, size, "name=value with commas between; the names are %s", options);
        break;
    }
}

/*
 * Misspelt names
 */

static bool is_name(const char *known, const char *name, size_t length)
{
    return known && strlen(known) == length && memcmp(known, name, length) == 0;
}

static bool is_ours(const char *name, size_t length)
{
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = &table[i];
        if (is_name(e->variable ? e->old_name : e->name, name, length))
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

static size_t minimum_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance: the number of letters to insert, delete, replace, or swap with the next letter. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t d[NAME_MAX_LENGTH + 1][NAME_MAX_LENGTH + 1];

    for (size_t i = 0; i <= na; i++) {
        for (size_t j = 0; j <= nb; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = minimum_of(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]),
                                 minimum_of(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = minimum_of(d[i][j], d[i - 2][j - 2] + 1);
        }
    }
    return d[na][nb];
}

/* Maximum edit distance of a misspelt name. Programs have UTOFU_ variables of their own, so the
 * limit is two letters, and one letter for short names. */
static size_t limit_of(size_t na, size_t nb)
{
    return minimum_of(na, nb) < SHORT_NAME ? 1 : 2;
}

static const struct ut_env_entry *find_meant(const char *name, size_t length)
{
    const struct ut_env_entry *meant = NULL;
    const char *rest = name + PREFIX_LENGTH;
    size_t n = length - PREFIX_LENGTH, best = SIZE_MAX;

    if (length > NAME_MAX_LENGTH)
        return NULL;
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = &table[i];
        const char *known = e->variable ? e->old_name : e->name;
        if (!known || !ut_env_is_shown(e) || strlen(known) > NAME_MAX_LENGTH)
            continue;
        known += PREFIX_LENGTH;
        size_t nk = strlen(known), d = edit_distance(rest, n, known, nk);
        if (d < best && d <= limit_of(n, nk)) {
            best = d;
            meant = e;
        }
    }
    return meant;
}

bool ut_env_next_misspelt(char ***at, struct ut_env_misspelt *misspelt)
{
    while (*at && **at) {
        const char *name = *(*at)++;
        size_t n = strcspn(name, "=");
        if (n < PREFIX_LENGTH || memcmp(name, prefix, PREFIX_LENGTH) != 0 || is_ours(name, n) ||
            is_of_others(name, n))
            continue;
        const struct ut_env_entry *meant = find_meant(name, n);
        if (!meant)
            continue;
        *misspelt = (struct ut_env_misspelt){.name = name, .length = (int)n};
        ut_env_label(meant, misspelt->meant, sizeof(misspelt->meant));
        return true;
    }
    return false;
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

void ut_env_label(const struct ut_env_entry *e, char *buf, size_t size)
{
    if (e->variable)
        snprintf(buf, size, "%s,%s", e->variable->name, e->name);
    else
        snprintf(buf, size, "%s", e->name);
}

const struct ut_env_entry *ut_env_next_old(int *at)
{
    pthread_once(&loaded.once, load_table);
    while (*at < UT_ENV_COUNT) {
        const struct ut_env_entry *e = &table[(*at)++];
        if (e->is_by_old_name)
            return e;
    }
    return NULL;
}

void ut_env_spell(const struct ut_env_entry *option, char *buf, size_t size)
{
    const struct ut_env_entry *v = option->variable;

    snprintf(buf, size, "%s=%s%s%s=%s", v->name, v->text ? v->text : "", v->text ? "," : "",
             option->name, option->text);
}

/*
 * Reading the environment
 */

/* Prints the line, and stores it in the entry. */
__attribute__((format(printf, 2, 3))) static void refuse_line(struct ut_env_entry *e,
                                                              const char *format, ...)
{
    static const char start[] = "environment variable ";
    enum { START_LENGTH = sizeof(start) - 1 };
    char line[sizeof(loaded.error)] = "environment variable ";
    va_list args;

    va_start(args, format);
    vsnprintf(line + START_LENGTH, sizeof(line) - START_LENGTH, format, args);
    va_end(args);
    fprintf(stderr, "utofu: %s\n", line);
    if (loaded.result == 0)
        memcpy(loaded.error, line, sizeof(loaded.error));
    loaded.result = -EINVAL;
    if (!e->why_bad)
        e->why_bad = strdup(line + START_LENGTH);
}

/* Prints no value of a key. */
static void refuse_value(struct ut_env_entry *e, const char *name)
{
    char allowed[320], options[128] = "";

    ut_env_allowed(e, allowed, sizeof(allowed));
    if (e->type != UT_ENV_TYPE_OPTIONS && !e->variable)
        list_options(e, options, sizeof(options));
    if (e->type == UT_ENV_TYPE_KEY)
        refuse_line(e, "%s: not allowed; it takes %s", name, allowed);
    else
        refuse_line(e, "%s: '%s' is not allowed; it takes %s%s%s", name, e->text, allowed,
                    *options ? ", and options: " : "", options);
}

/* Stores the value of a variable. The text is copied for the life of the process, because setenv()
 * may move the original. */
static void set_value(struct ut_env_entry *e, const char *text, const char *name)
{
    if (*text == '\0')
        return;
    e->is_set = true;
    e->text = text;
    if (ut_env_parse(e, text, &e->value) == 0)
        return;
    refuse_value(e, name);
}

/* The length of the option's name before '=' at the beginning of the text; 0: none. */
static size_t option_length(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return text[n] == '=' ? n : 0;
}

/* Returns the beginning of the next option, and terminates the text before it. NULL: none. */
static char *cut_before_option(char *text)
{
    for (char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
        if (option_length(comma + 1) > 0) {
            *comma = '\0';
            return comma + 1;
        }
    }
    return NULL;
}

/* Finds the option with this name, or any option if name is NULL. NULL: none. */
static struct ut_env_entry *find_option(const struct ut_env_entry *variable, const char *name)
{
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        if (table[i].variable == variable && (!name || strcmp(table[i].name, name) == 0))
            return &table[i];
    }
    return NULL;
}

static void load_options(struct ut_env_entry *variable, char *text)
{
    while (text) {
        char label[UT_ENV_LABEL_SIZE], names[128], *next = cut_before_option(text);
        char *value = text + option_length(text);
        *value++ = '\0';
        struct ut_env_entry *e = find_option(variable, text);
        if (!e) {
            list_options(variable, names, sizeof(names));
            refuse_line(variable, "%s: option '%s' is not allowed; it takes %s", variable->name,
                        text, names);
        } else if (e->is_set) {
            refuse_line(e, "%s: option '%s' is not allowed twice; it takes one", variable->name,
                        text);
        } else {
            ut_env_label(e, label, sizeof(label));
            set_value(e, value, label);
        }
        text = next;
    }
}

static void load_variable(struct ut_env_entry *e)
{
    const char *text = ut_env_text(e->name);
    char *copy = text && *text ? strdup(text) : NULL;

    if (!copy)
        return;
    loaded.copies[e - table] = copy;
    if (!find_option(e, NULL)) {
        set_value(e, copy, e->name);
        return;
    }
    char *options = option_length(copy) > 0 ? copy : cut_before_option(copy);
    if (options != copy)
        set_value(e, copy, e->name);
    load_options(e, options);
}

/* If both are set, the variable of this release takes precedence. */
static void load_old_name(struct ut_env_entry *e)
{
    const char *text = e->old_name ? ut_env_text(e->old_name) : NULL;
    char *copy = text && *text ? strdup(text) : NULL;

    if (!copy)
        return;
    e->is_by_old_name = true;
    if (e->is_set)
        free(copy);
    else
        set_value(e, copy, e->old_name);
}

static const char *default_text(const struct ut_env_entry *e)
{
    char *first =
        e->type == UT_ENV_TYPE_LIST ? strndup(e->choices, strcspn(e->choices, "|")) : NULL;

    return first ? first : e->choices ? e->choices : "";
}

static void load_table(void)
{
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        if (!table[i].variable)
            load_variable(&table[i]);
    }
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        struct ut_env_entry *e = &table[i];
        load_old_name(e);
        if (e->type == UT_ENV_TYPE_LIST || e->type == UT_ENV_TYPE_STR || e->type == UT_ENV_TYPE_KEY)
            e->str = e->text ? e->text : default_text(e);
    }
}

int ut_env_load(void)
{
    pthread_once(&loaded.once, load_table);
    return loaded.result;
}

const char *ut_env_error(void)
{
    return loaded.error;
}

const struct ut_env_entry *ut_env_get(enum ut_env_id id)
{
    pthread_once(&loaded.once, load_table);
    return &table[id];
}
