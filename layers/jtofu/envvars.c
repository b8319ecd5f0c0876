/* SPDX-License-Identifier: Apache-2.0 */
/* jtofu_create_mapinfo_by_envvars(): the map that the variables JTOFU_MAPINFO_* describe. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "own_map.h"
#include "jobs.h"
#include "map.h"

#define FUNCTION "jtofu_create_mapinfo_by_envvars"
#define PREFIX   "JTOFU_MAPINFO_"

/* Fugaku's library reads these variables, too, but no public document describes them. */
static const char *const unknown[] = {"BROKEN_NODE", "COORDS", "LOGICAL_X", "LOGICAL_Y",
                                      "LOGICAL_Z",   "ORDER",  "SIZE"};
static const char *const known[] = {"NODE", "PPN",   "PROC",        "RANKMAP",
                                    "REF",  "SHAPE", "SYSTEM_SIZE", "SYSTEM_TORUS"};
enum {
    NUM_UNKNOWN = sizeof(unknown) / sizeof(unknown[0]),
    NUM_KNOWN = sizeof(known) / sizeof(known[0]),
    MOST_GROUPS = 256, /* a coordinate has one byte */
};

struct description {
    uint32_t ppn, procs;
    uint32_t log[3], groups[3], ref[3], torus[JT_AXES];
    bool cyclic, in_system;
};

static const char *get_text(const char *name)
{
    char whole[64];

    snprintf(whole, sizeof(whole), PREFIX "%s", name);
    return getenv(whole);
}

static int fail_value(const char *name, const char *wanted)
{
    return jt_fail(FUNCTION, JTOFU_ERR_INVALID_ARG, PREFIX "%s=%s: give %s", name, get_text(name),
                   wanted);
}

static int fail_unknown(void)
{
    for (size_t i = 0; i < NUM_UNKNOWN; i++)
        if (get_text(unknown[i]) != NULL)
            return jt_fail(
                FUNCTION, JTOFU_ERR_NOT_IMPLEMENTED,
                PREFIX "%s=%s: its meaning is unknown; unset it, and describe the job by " PREFIX
                       "NODE, PPN, PROC and RANKMAP",
                unknown[i], get_text(unknown[i]));
    return JTOFU_SUCCESS;
}

static bool any_known(void)
{
    for (size_t i = 0; i < NUM_KNOWN; i++)
        if (get_text(known[i]) != NULL)
            return true;
    return false;
}

/* Parses up to `max` numbers from `least` to `most`, separated by `between`. Returns their number;
 * 0: invalid. */
static int parse_numbers(const char *text, char between, int max, uint32_t least, uint32_t most,
                         uint32_t numbers[])
{
    for (int i = 0; i < max; i++) {
        char *end;
        unsigned long n;

        if (*text < '0' || *text > '9')
            return 0;
        n = strtoul(text, &end, 10);
        if (n < least || n > most)
            return 0;
        numbers[i] = (uint32_t)n;
        if (*end == '\0')
            return i + 1;
        if (*end != between)
            return 0;
        text = end + 1;
    }
    return 0;
}

static int read_counts(struct description *w)
{
    const char *ppn = get_text("PPN"), *procs = get_text("PROC");

    if (ppn != NULL && parse_numbers(ppn, 'x', 1, 1, JT_MAX_PROCS, &w->ppn) == 0)
        return fail_value("PPN", "the number of processes of a node, 1 or more");
    if (procs != NULL && parse_numbers(procs, 'x', 1, 1, JT_MAX_PROCS, &w->procs) == 0)
        return fail_value("PROC", "the number of processes, 1 or more");
    return JTOFU_SUCCESS;
}

static int read_grid(struct description *w)
{
    const char *node = get_text("NODE"), *shape = get_text("SHAPE");
    uint32_t again[3];

    if (node != NULL &&
        (!jt_shape_parse(node, 3, w->log) || jt_shape_product(w->log) > JT_MAX_PROCS))
        return fail_value("NODE", "X, XxY or XxYxZ, the numbers of nodes");
    if (shape == NULL)
        return JTOFU_SUCCESS;
    if (!jt_shape_parse(shape, 3, again) || jt_shape_product(again) > JT_MAX_PROCS)
        return fail_value("SHAPE", "X, XxY or XxYxZ, the numbers of nodes");
    if (node != NULL && memcmp(again, w->log, sizeof(again)) != 0)
        return fail_value("SHAPE", "the same as in " PREFIX "NODE, or one of the two");
    memcpy(w->log, again, sizeof(again));
    return JTOFU_SUCCESS;
}

static int read_system(struct description *w)
{
    const char *size = get_text("SYSTEM_SIZE"), *torus = get_text("SYSTEM_TORUS");
    const char *ref = get_text("REF");

    w->in_system = size != NULL;
    if (size != NULL && parse_numbers(size, 'x', 3, 1, MOST_GROUPS, w->groups) != 3)
        return fail_value("SYSTEM_SIZE", "XxYxZ, numbers of 1 to 256");
    if (torus != NULL && parse_numbers(torus, 'x', JT_AXES, 0, 1, w->torus) != JT_AXES)
        return fail_value("SYSTEM_TORUS", "six numbers for the axes X, Y, Z, A, B and C, 1 for "
                                          "those that are rings, as in 1x1x1x0x1x0");
    if (ref != NULL && parse_numbers(ref, ',', 3, 0, MOST_GROUPS - 1, w->ref) != 3)
        return fail_value("REF", "X,Y,Z, numbers of 0 to 255");
    return JTOFU_SUCCESS;
}

static int read_rankmap(struct description *w)
{
    const char *text = get_text("RANKMAP");

    w->cyclic = text != NULL && strcmp(text, "bynode") == 0;
    if (text != NULL && !w->cyclic && strcmp(text, "bychip") != 0)
        return fail_value("RANKMAP", "bychip, which fills one node after the other, or bynode");
    return JTOFU_SUCCESS;
}

static int check_procs(struct description *w, uint32_t nodes)
{
    uint64_t places = (uint64_t)nodes * w->ppn;

    if (places > JT_MAX_PROCS)
        return jt_fail(FUNCTION, JTOFU_ERR_INVALID_ARG,
                       "%u nodes with %u processes each are too many: give " PREFIX
                       "NODE and PPN so that there are %u at most",
                       nodes, w->ppn, JT_MAX_PROCS);
    if (w->procs == 0)
        w->procs = (uint32_t)places;
    if (w->procs > places)
        return fail_value("PROC", "no more than there are places for: the nodes of " PREFIX
                                  "NODE times " PREFIX "PPN");
    return JTOFU_SUCCESS;
}

static int read_description(struct description *w)
{
    static const struct description usual = {
        .ppn = 1, .log = {1, 1, 1}, .groups = {256, 256, 256}, .torus = {1, 1, 1, 0, 1, 0}};
    int rc;

    *w = usual;
    rc = read_counts(w);
    if (rc == JTOFU_SUCCESS)
        rc = read_grid(w);
    if (rc == JTOFU_SUCCESS)
        rc = read_system(w);
    if (rc == JTOFU_SUCCESS)
        rc = read_rankmap(w);
    return rc == JTOFU_SUCCESS ? check_procs(w, (uint32_t)jt_shape_product(w->log)) : rc;
}

/* Fills the system with groups of nodes, starting at the reference coordinates. */
static bool place_nodes(struct jt_layout *layout, const struct description *w)
{
    uint32_t room[3];
    uint64_t groups = ((uint64_t)layout->nodes + JT_GROUP - 1) / JT_GROUP;

    for (int i = 0; i < 3; i++) {
        if (w->ref[i] >= w->groups[i])
            return false;
        room[i] = w->groups[i] - w->ref[i];
    }
    if (groups > (uint64_t)room[0] * room[1] * room[2])
        return false;
    for (uint32_t n = 0; n < layout->nodes; n++) {
        jt_map_place(n, room[0], room[1], layout->phys[n]);
        for (int i = 0; i < 3; i++)
            layout->phys[n][i] = (uint8_t)(layout->phys[n][i] + w->ref[i]);
    }
    return true;
}

static void place_ranks(struct jt_layout *layout, const struct description *w)
{
    for (uint32_t r = 0; r < layout->procs; r++)
        layout->node_of[r] = w->cyclic ? r % layout->nodes : r / w->ppn;
}

static void describe_system(struct jt_layout *layout, const struct description *w)
{
    jt_shape_system(layout);
    for (int i = 0; i < 3; i++) {
        if (w->in_system)
            layout->last[i] = (uint8_t)(w->groups[i] - 1);
        layout->ref[i] = (uint8_t)w->ref[i];
    }
    for (int i = 0; i < JT_AXES; i++)
        layout->torus[i] = (uint8_t)w->torus[i];
}

static int make_map(const struct description *w, struct jt_layout *layout, void **bytes,
                    size_t *size)
{
    int rc = JTOFU_ERR_OUT_OF_MEMORY;

    if (layout->phys != NULL && layout->node_of != NULL) {
        if (!place_nodes(layout, w))
            return jt_fail(
                FUNCTION, JTOFU_ERR_INVALID_ARG,
                "the system has no room for %u nodes from %u,%u,%u on: give a larger " PREFIX
                "SYSTEM_SIZE, or smaller coordinates in " PREFIX "REF",
                layout->nodes, w->ref[0], w->ref[1], w->ref[2]);
        place_ranks(layout, w);
        describe_system(layout, w);
        rc = jt_map_write(layout, bytes, size);
    }
    return rc == JTOFU_SUCCESS
               ? rc
               : jt_fail(FUNCTION, rc, "no memory for the map of %u processes", layout->procs);
}

static int build_described_map(void **bytes, size_t *size, uint32_t *procs)
{
    struct jt_layout layout = {0};
    struct description w;
    int rc = read_description(&w);

    if (rc != JTOFU_SUCCESS)
        return rc;
    layout.procs = *procs = w.procs;
    layout.nodes = (uint32_t)jt_shape_product(w.log);
    memcpy(layout.log, w.log, sizeof(layout.log));
    layout.phys = malloc(layout.nodes * sizeof(*layout.phys));
    layout.node_of = malloc(layout.procs * sizeof(*layout.node_of));
    rc = make_map(&w, &layout, bytes, size);
    free(layout.phys);
    free(layout.node_of);
    return rc;
}

static int copy_own_map(void **bytes, size_t *size, uint32_t *procs)
{
    const void *own;
    int rc = jt_own_map(&own, size, procs);

    if (rc != JTOFU_SUCCESS)
        return rc; /* jt_own_map() has logged the reason */
    *bytes = malloc(*size);
    if (*bytes == NULL)
        return jt_fail(FUNCTION, JTOFU_ERR_OUT_OF_MEMORY, "no memory for the map of %u processes",
                       *procs);
    memcpy(*bytes, own, *size);
    return JTOFU_SUCCESS;
}

int jtofu_create_mapinfo_by_envvars(void **mapinfo, size_t *mapinfo_size, unsigned int *num_proc)
{
    uint32_t procs = 0;
    int rc;

    if (mapinfo == NULL || mapinfo_size == NULL || num_proc == NULL)
        return jt_fail(FUNCTION, JTOFU_ERR_INVALID_POINTER, "%s is NULL: give where it is",
                       mapinfo == NULL        ? "mapinfo"
                       : mapinfo_size == NULL ? "mapinfo_size"
                                              : "num_proc");
    rc = fail_unknown();
    if (rc == JTOFU_SUCCESS)
        rc = any_known() ? build_described_map(mapinfo, mapinfo_size, &procs)
                         : copy_own_map(mapinfo, mapinfo_size, &procs);
    if (rc == JTOFU_SUCCESS)
        *num_proc = procs;
    return rc;
}
