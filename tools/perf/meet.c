/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --listen and --connect: a job of two processes without a launcher, configured by the variables of
 * a job set up by hand. The listening process is rank 0 of that job, as it runs the rendezvous
 * server, but the connecting process measures and prints, so the party reverses the ranks.
 */
#include "perf.h"
#include "util/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESS_MAX = 512, DEFAULT_PORT = 20710 };

struct meeting {
    char version[32];
    unsigned char options[PERF_OPTIONS_OF_BOTH];
};
_Static_assert(sizeof(struct meeting) <= PARTY_RECORD_MAX, "fits");

static bool is_port(const char *text)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);

    return *text >= '0' && *text <= '9' && !*end && port > 0 && port < 65536;
}

/* The beginning of the port, or NULL; of an IPv6 address, only after its bracket. */
static const char *port_of(const char *text)
{
    const char *colon = strrchr(text, ':'), *bracket = strchr(text, ']');

    if (!colon || (bracket && colon < bracket))
        return NULL;
    return colon + 1;
}

static void set(const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0)
        party_fail(1, "no memory");
}

/* Two nodes, independent of the address: both processes must agree. */
static void set_job(const char *rank, const char *root)
{
    set("UTOFU_RANK", rank);
    set("UTOFU_SIZE", "2");
    set("UTOFU_ROOT", root);
    set("UTOFU_NODE", rank);
    set("UTOFU_LOCAL_RANK", "0");
    set("UTOFU_LOCAL_SIZE", "1");
}

static bool has_key(void)
{
    const char *key = getenv("UTOFU_JOB_KEY"), *file = getenv("UTOFU_JOB_KEY_FILE");

    return (key && *key) || (file && *file);
}

/* Makes a key if there is none, and prints it for the other end. */
static bool make_key(char text[UT_KEY_TEXT])
{
    if (has_key())
        return false;
    if (ut_key_make(text) != 0)
        party_fail(1, "no random numbers for the key");
    set("UTOFU_JOB_KEY", text);
    return true;
}

static void listen_there(const char *where)
{
    const char *port = port_of(where);
    char root[ADDRESS_MAX], key[UT_KEY_TEXT];

    if (!is_port(port ? port : where) || port == where + 1 || strlen(where) > ADDRESS_MAX / 2)
        party_usage_error(PERF_NAME, "--listen takes [HOST:]PORT, not '%s'", where);
    snprintf(root, sizeof(root), "%s%s", port ? "" : "0.0.0.0:", where);
    bool made = make_key(key);
    set_job("0", root);
    party_reverse(true);
    party_find(PERF_NAME, 2, perf_options.timeout);
    if (made)
        fprintf(stderr,
                PERF_NAME ": listening at %s; at the other end: UTOFU_JOB_KEY=%s " PERF_NAME
                          " --connect HOST:%s OPERATION...\n",
                root, key, port ? port : where);
    else if (!perf_options.no_progress)
        fprintf(stderr, PERF_NAME ": listening at %s\n", root);
}

static void connect_there(const char *where)
{
    const char *port = port_of(where);
    char root[ADDRESS_MAX];

    if (!*where || (port && (!is_port(port) || port == where + 1)) ||
        strlen(where) > ADDRESS_MAX / 2)
        party_usage_error(PERF_NAME, "--connect takes HOST[:PORT], not '%s'", where);
    if (!has_key())
        party_usage_error(PERF_NAME, "--connect needs the key that --listen says at the other end, "
                                     "in UTOFU_JOB_KEY");
    if (port)
        snprintf(root, sizeof(root), "%s", where);
    else
        snprintf(root, sizeof(root), "%s:%d", where, DEFAULT_PORT);
    set_job("1", root);
    party_reverse(false);
}

void perf_meet(void)
{
    if (perf_options.listen)
        listen_there(perf_options.listen);
    if (perf_options.connect)
        connect_there(perf_options.connect);
}

/* Number ranges, as in --help. */
static bool is_in_range(const struct perf_options *o)
{
    return o->num_ops > 0 && o->num_ops <= PERF_MAX_OPS && o->num_sizes <= PERF_MAX_SIZES &&
           o->num_tnis > 0 && o->num_tnis <= PERF_MAX_TNIS && o->threads > 0 &&
           o->threads <= PERF_MAX_THREADS && o->window > 0 && o->window <= PERF_MAX_WINDOW &&
           o->buffers <= o->window && o->iterations <= PERF_MAX_ITERATIONS &&
           o->warmup <= PERF_MAX_ITERATIONS && o->duration_ms <= PERF_MAX_DURATION_MS &&
           o->blocks > 0 && o->blocks <= PERF_MAX_BLOCKS && o->stride <= PERF_MAX_PUT &&
           o->target <= PERF_COMPUTES;
}

/* Options of another process are not trusted: none may index beyond an array or allocate too
 * much. */
static bool is_sane(const struct perf_options *o)
{
    bool sane = is_in_range(o);

    for (uint64_t i = 0; sane && i < o->num_ops; i++)
        sane = o->ops[i] < perf_num_ops;
    for (uint64_t i = 0; sane && i < o->num_sizes; i++)
        sane = o->sizes[i] <= PERF_MAX_MESSAGE;
    for (uint64_t i = 0; sane && i < o->num_tnis; i++)
        sane = o->tnis[i] < PERF_MAX_TNIS;
    return sane;
}

void perf_meet_options(void)
{
    struct meeting mine = {.version = UT_VERSION}, both[2];

    if (!perf_options.listen && !perf_options.connect)
        return;
    memcpy(mine.options, &perf_options, sizeof(mine.options));
    party_gather(&mine, sizeof(mine), both, false);
    if (memcmp(both[0].version, both[1].version, sizeof(mine.version)) != 0)
        party_fail(1, "this is version %s and the other end %.31s; they have to be the same",
                   UT_VERSION, both[1 - party.rank].version);
    memcpy(&perf_options, both[0].options, sizeof(mine.options));
    if (!is_sane(&perf_options))
        party_fail(1, "the other end asks for what there is not here: is it of the same build?");
}
