/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment, read once into a typed table. If a value is not allowed, one line is logged, and
 * ut_env_load() fails. No other module reads UTOFU_*, and no module of the library calls getenv(),
 * because the caller of a set-uid program must not control the program.
 * Some variables have options: UTOFU_STATS=job,file=/tmp/s. A comma followed by a name (small
 * letters, digits, underscores) and '=' begins an option. Any other comma belongs to the value
 * before it, as in UTOFU_LOG_LEVEL=debug,category=verbs,link. If the text starts with a name and
 * '=', there is no value, and the default applies. An empty value counts as not set. Variables and
 * options are entries of one table.
 */
#ifndef UT_UTIL_ENV_H
#define UT_UTIL_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ut_env_type {
    UT_ENV_TYPE_UINT, /* decimal number within [min, max] */
    UT_ENV_TYPE_BOOL, /* 0|1, yes|no, on|off, true|false */
    UT_ENV_TYPE_FLAG, /* number: 0 is 0, anything else is 1 */
    UT_ENV_TYPE_ENUM, /* one of the choices, in upper or lower case. If the first choices are 0 and
                       * 1, also as BOOL */
    UT_ENV_TYPE_MRQ,  /* number of MRQ entries, rounded to the nearest choice */
    UT_ENV_TYPE_LIST, /* some of the choices, separated by commas or spaces; the first is the
                       * default */
    UT_ENV_TYPE_STR,
    UT_ENV_TYPE_KEY,     /* like STR, but hexadecimal digits, and never printed */
    UT_ENV_TYPE_OPTIONS, /* no value of its own, only options */
};

#define OTHER(names, who)

enum ut_env_id {
#define X(id, ...)      UT_ENV_##id,
#define OPTION(id, ...) UT_ENV_##id,
#include "util/env_table.h"
#undef OPTION
#undef X
    UT_ENV_COUNT
};
#undef OTHER

/* values of the ENUM variables */
/* UTOFU_PROVIDER: auto, or UT_PROVIDER_FIRST + the index of a provider in the registry. */
enum { UT_PROVIDER_AUTO, UT_PROVIDER_FIRST };
enum { UT_STATS_OFF, UT_STATS_OWN, UT_STATS_JOB, UT_STATS_JOB_JSON };
enum { UT_ARMW_CPU, UT_ARMW_NIC, UT_ARMW_AUTO };
enum { UT_AFTER_BREAK_REPEAT, UT_AFTER_BREAK_REPORT };
enum { UT_VERBS_CONNECT_AUTO, UT_VERBS_CONNECT_RDMACM, UT_VERBS_CONNECT_UD };
enum { UT_VERBS_ORDER_AUTO, UT_VERBS_ORDER_TRUST, UT_VERBS_ORDER_SAFE, UT_VERBS_ORDER_RELAXED };

struct ut_env_entry {
    const char *name; /* name of a variable or of an option */
    const struct ut_env_entry
        *variable;        /* the variable of an option; NULL: the entry is a variable */
    const char *old_name; /* option: the variable that it had as an old name, or NULL */
    enum ut_env_type type;
    uint64_t def, min, max;
    const char *choices; /* ENUM, LIST, MRQ: a|b|c; STR: the default */
    const char *help;    /* NULL: the variable is for tests, and not shown to users */
    const char *text;    /* value in the environment; NULL: not set, or empty */
    bool is_set;         /* set in the environment */
    const char *why_bad; /* "NAME: 'x' is not allowed; it takes ..."; NULL: valid */
    bool is_by_old_name; /* set by its old name */
    uint64_t value;      /* UINT, BOOL, FLAG, MRQ: the number; ENUM: index of the choice */
    const char *str;     /* LIST, STR, KEY: the value */
};

/* Reads the whole environment once, from any thread. Returns 0, or -EINVAL after a line on standard
 * error for every bad variable. Later calls return the same. */
int ut_env_load(void);

/* The first line that ut_env_load() has printed, without its newline; or "". */
const char *ut_env_error(void);

const struct ut_env_entry *ut_env_get(enum ut_env_id id);

static inline uint64_t ut_env_num(enum ut_env_id id)
{
    return ut_env_get(id)->value;
}

static inline bool ut_env_is_set(enum ut_env_id id)
{
    return ut_env_get(id)->is_set;
}

static inline const char *ut_env_str(enum ut_env_id id)
{
    return ut_env_get(id)->str;
}

/* Parses one value of an entry without storing it. 0 or -EINVAL. For the table and its tests. */
int ut_env_parse(const struct ut_env_entry *entry, const char *text, uint64_t *value);

/* Copies the next item of a list with commas and optional spaces, cut to `size`, and advances
 * *list. False: the end. */
enum { UT_ENV_ITEM_SIZE = 128 };
bool ut_env_next_item(const char **list, char *item, size_t size);

/* The value of a launcher's variable. NULL: not set, or the environment is not trusted. */
const char *ut_env_text(const char *name);

/* True for a set-uid or set-gid program, or one whose file has capabilities: a user with fewer
 * rights may control the environment, so the library ignores it. */
bool ut_env_is_foreign(void);

/* Iterates over the entries that are set by their old name. *at is 0 at first. NULL: the end. */
const struct ut_env_entry *ut_env_next_old(int *at);

/* Writes the new spelling of an option that is set by its old name: "UTOFU_STATS=job,file=/tmp/s".
 */
void ut_env_spell(const struct ut_env_entry *option, char *buf, size_t size);

/* Writes the name of an entry for messages: "UTOFU_STATS", or "UTOFU_STATS,file" for an option. */
enum { UT_ENV_LABEL_SIZE = 64 };
void ut_env_label(const struct ut_env_entry *entry, char *buf, size_t size);

/* Is the entry for users, not only for tests? */
static inline bool ut_env_is_shown(const struct ut_env_entry *entry)
{
    return (entry->variable ? entry->variable : entry)->help != NULL;
}

/* Iterates over variables of the environment that are probably misspelt. They begin with UTOFU_,
 * belong to no known software, and differ by one or two letters from a variable of this library.
 * *at is environ at first. False: the end. */
struct ut_env_misspelt {
    const char *name; /* followed by its value: "UTOFU_PROVIDR=shm" */
    int length;       /* length of the name */
    char meant[UT_ENV_LABEL_SIZE];
};
bool ut_env_next_misspelt(char ***at, struct ut_env_misspelt *misspelt);

/* Writes the allowed values: "a number from 1 to 128", "one of a|b|c". */
void ut_env_allowed(const struct ut_env_entry *entry, char *buf, size_t size);

#endif
