/* SPDX-License-Identifier: Apache-2.0 */
#include "model/machine.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/fail.h"
#include "model/toml.h"

struct reading {
    struct um_machine *machine;
    unsigned long long seen, seen_topology;
};

enum { SEEN_TOPOLOGY = 1, SEEN_TORUS = 2, SEEN_LEAF = 4, SEEN_SPINES = 8 };

static void __attribute__((noreturn)) refuse_key(const struct um_toml *at, const char *why)
{
    um_fail(UM_EXIT_BAD, "%s:%u: key '%s' of [%s]: %s", at->path, at->line, at->key, at->table,
            why);
}

/* Numbers with a largest one are counts. */
static bool is_in_range(double number, double least, double most)
{
    return number >= least && (most == UM_ANY || (number <= most && number == floor(number)));
}

static void describe_range(char *text, size_t size, double number, double least, double most)
{
    if (most == UM_ANY)
        snprintf(text, size, "%g: expected a number of at least %g", number, least);
    else
        snprintf(text, size, "%g: expected a whole number from %g to %g", number, least, most);
}

static double take_number(const struct um_toml *at, double least, double most)
{
    char why[96];

    if (at->kind != UM_TOML_NUMBER)
        refuse_key(at, "expected a number");
    if (is_in_range(at->number, least, most))
        return at->number;
    describe_range(why, sizeof(why), at->number, least, most);
    refuse_key(at, why);
}

static const char *take_text(const struct um_toml *at)
{
    if (at->kind != UM_TOML_STRING)
        refuse_key(at, "expected a string");
    return at->text;
}

static void read_topology(const struct um_toml *at, struct reading *r)
{
    struct um_machine *m = r->machine;

    if (strcmp(at->key, "kind") == 0) {
        const char *kind = take_text(at);
        if (strcmp(kind, "tofu") != 0 && strcmp(kind, "fat-tree") != 0)
            refuse_key(at, "expected \"tofu\" or \"fat-tree\"");
        m->topology = *kind == 't' ? UM_TOFU : UM_FAT_TREE;
        r->seen_topology |= SEEN_TOPOLOGY;
    } else if (strcmp(at->key, "torus") == 0) {
        const char *axes = take_text(at);
        if (axes[strspn(axes, "xyz")])
            refuse_key(at, "expected a string of the letters x, y and z");
        for (int i = 0; i < 3; i++)
            m->torus[i] = strchr(axes, 'x' + i) != NULL;
        r->seen_topology |= SEEN_TORUS;
    } else if (strcmp(at->key, "nodes_a_leaf") == 0) {
        m->nodes_a_leaf = take_number(at, 1, UM_MOST_COUNT);
        r->seen_topology |= SEEN_LEAF;
    } else if (strcmp(at->key, "spines") == 0) {
        m->spines = take_number(at, 1, UM_MOST_COUNT);
        r->seen_topology |= SEEN_SPINES;
    } else {
        refuse_key(at, "there is no such key");
    }
}

static void read_key(const struct um_toml *at, void *arg)
{
    struct reading *r = arg;
    int bit = 0;

    if (!*at->table && strcmp(at->key, "name") == 0) {
        snprintf(r->machine->name, sizeof(r->machine->name), "%.63s", take_text(at));
        return;
    }
    if (strcmp(at->table, "topology") == 0) {
        read_topology(at, r);
        return;
    }
#define UM_READ(table_, name_, least, most)                                                        \
    if (strcmp(at->table, #table_) == 0 && strcmp(at->key, #name_) == 0) {                         \
        if (r->seen >> bit & 1)                                                                    \
            refuse_key(at, "it is there twice");                                                   \
        r->machine->table_##_##name_ = take_number(at, least, most);                               \
        r->machine->has_mpi |= strcmp(#table_, "mpi") == 0;                                        \
        r->seen |= 1ull << bit;                                                                    \
        return;                                                                                    \
    }                                                                                              \
    bit++;
    UM_PARAMETERS(UM_READ)
#undef UM_READ
    refuse_key(at, "there is no such key");
}

static void check_complete(const struct reading *r, const char *path)
{
    unsigned long long topology = r->machine->topology == UM_TOFU
                                      ? SEEN_TOPOLOGY | SEEN_TORUS
                                      : SEEN_TOPOLOGY | SEEN_LEAF | SEEN_SPINES;
    int bit = 0;

#define UM_CHECK(table_, name_, least, most)                                                       \
    if (!(r->seen >> bit++ & 1) && (r->machine->has_mpi || strcmp(#table_, "mpi") != 0))           \
        um_fail(UM_EXIT_BAD, "%s: key '%s' of [%s] is missing", path, #name_, #table_);
    UM_PARAMETERS(UM_CHECK)
#undef UM_CHECK
    if (r->seen_topology != topology)
        um_fail(UM_EXIT_BAD,
                "%s: [topology] needs kind = \"tofu\" and torus, or kind = \"fat-tree\", "
                "nodes_a_leaf and spines",
                path);
}

void um_machine_read(struct um_machine *machine, const char *name, const char *folder)
{
    char path[PATH_MAX];
    struct reading r = {.machine = machine};

    if (strpbrk(name, "/."))
        snprintf(path, sizeof(path), "%s", name);
    else
        snprintf(path, sizeof(path), "%s/%s.toml", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        um_fail(UM_EXIT_BAD, "%s: %s: --machine takes tofud, infiniband, or the path of a file",
                path, strerror(errno));
    *machine = (struct um_machine){.name = ""};
    um_toml_read(file, path, read_key, &r);
    fclose(file);
    check_complete(&r, path);
    if (!*machine->name)
        snprintf(machine->name, sizeof(machine->name), "%.63s", name);
}

bool um_machine_set(struct um_machine *machine, const char *text, size_t length, double value,
                    char *why, size_t size)
{
#define UM_SET(table_, name_, least, most)                                                         \
    if (strlen(#table_ "." #name_) == length && strncmp(text, #table_ "." #name_, length) == 0) {  \
        machine->table_##_##name_ = value;                                                         \
        if (!is_in_range(value, least, most))                                                      \
            describe_range(why, size, value, least, most);                                         \
        return is_in_range(value, least, most);                                                    \
    }
    UM_PARAMETERS(UM_SET)
#undef UM_SET
    snprintf(why, size,
             "expected tni=spread, map=FILE, allocation=XxYxZ, torus=AXES, bytes=F, or a key of "
             "the machine's file, such as link.hop_ns=150");
    return false;
}
