/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment, read once into one typed table. A value that is not allowed is logged on one
 * line, and ut_env_load() fails. No other module reads UTOFU_*, and no module of the library calls
 * getenv(), because the caller of a set-uid program must not control it.
 *
 * Some variables have options: UTOFU_STATS=job,file=/tmp/s. A comma that is followed by a name of
 * small letters, digits and underscores and by '=' begins an option; any other comma belongs to the
 * value before it, as in UTOFU_LOG_LEVEL=debug,category=verbs,link. If the text itself begins with
 * a name and '=', there is no value, and the default applies. An empty value means not set.
 * Variables and options are entries of one table.
 */
#ifndef UT_UTIL_ENV_H
#define UT_UTIL_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ut_env_type {
    UT_ENV_TYPE_UINT, /* decimal number within [min, max] */
    UT_ENV_TYPE_BOOL, /* 0|1, yes|no, on|off, true|false */
    UT_ENV_TYPE_FLAG, /* integer: 0 is 0, anything else is 1 */
    UT_ENV_TYPE_ENUM, /* one of the choices, in upper or lower case; if 0 and 1 come first, also as
                       * BOOL */
    UT_ENV_TYPE_MRQ,  /* number of MRQ entries: rounded to the nearest choice */
    UT_ENV_TYPE_LIST, /* some of the choices, separated by commas or spaces; the first is the
                       * default */
    UT_ENV_TYPE_STR,
    UT_ENV_TYPE_KEY,     /* as STR, but hexadecimal digits, and never printed */
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
    const char *name;                    /* of a variable, or of an option */
    const struct ut_env_entry *variable; /* of an option; NULL: a variable */
    const char *old_name;                /* of an option: an old variable; or NULL */
    enum ut_env_type type;
    uint64_t def, min, max;
    const char *choices; /* ENUM, LIST, MRQ: a|b|c; STR: the default */
    const char *help;    /* NULL: only for tests, not shown to users */
    const char *text;    /* from the environment; NULL: not set, or empty */
    bool is_set;         /* in the environment */
    const char *why_bad; /* "NAME: 'x' is not allowed; it takes ..."; NULL: valid */
    bool is_by_old_name; /* it was set by its old name */
    uint64_t value;      /* UINT, BOOL, FLAG, MRQ: the number; ENUM: index of the choice */
    const char *str;     /* LIST, STR, KEY: the value */
};

/* Reads the whole environment once, for any thread; 0, or -EINVAL with a line on standard error for
 * every bad variable (later calls return the same result). */
int ut_env_load(void);

/* The first of those lines, without its newline; empty if ut_env_load() returned 0. */
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

/* Parses one value of an entry without storing it: 0 or -EINVAL. For the table and its tests. */
int ut_env_parse(const struct ut_env_entry *entry, const char *text, uint64_t *value);

/* Copies the next item of a list with commas and optional spaces, truncated to `size`; advances
 * *list. False: the end. */
enum { UT_ENV_ITEM_SIZE = 128 };
bool ut_env_next_item(const char **list, char *item, size_t size);

/* A variable of a launcher; NULL: not set, or the environment is not trusted. */
const char *ut_env_text(const char *name);

/* Does the environment come from a user with fewer rights than this process: is this a set-uid or
 * set-gid program, or one whose file has capabilities? Then it is ignored. */
bool ut_env_is_foreign(void);

/* Iterates over the entries whose old name is set in the environment; *at is 0 at first; NULL at
 * the end. */
const struct ut_env_entry *ut_env_next_old(int *at);

/* The new spelling of an option whose old name is set: "UTOFU_STATS=job,file=/tmp/s". */
void ut_env_spell(const struct ut_env_entry *option, char *buf, size_t size);

/* The name of an entry in messages: "UTOFU_STATS", or "UTOFU_STATS,file" for an option. */
enum { UT_ENV_LABEL_SIZE = 64 };
void ut_env_label(const struct ut_env_entry *entry, char *buf, size_t size);

/* Is the entry for users, not only for tests? */
static inline bool ut_env_is_shown(const struct ut_env_entry *entry)
{
    return (entry->variable ? entry->variable : entry)->help != NULL;
}

/* Iterates over the variables of the environment that are probably misspelt: they begin with
 * UTOFU_, nobody is known to have them, and one or two letters make them one of the library's; *at
 * is environ at first. False: the end. */
struct ut_env_misspelt {
    const char *name; /* with its value behind it: "UTOFU_PROVIDR=shm" */
    int length;       /* of the name */
    char meant[UT_ENV_LABEL_SIZE];
};
bool ut_env_next_misspelt(char ***at, struct ut_env_misspelt *misspelt);

/* The allowed values: "a number from 1 to 128", "one of a|b|c". */
void ut_env_allowed(const struct ut_env_entry *entry, char *buf, size_t size);

#endif
