/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of acp_init(), and the variables that the upper layers of ACP are compiled against,
 * with their names and layout.
 */
#include "options.h"

#include "ctx.h"
#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((weak, visibility("default")))

struct iacpbl_number {
    uint64_t value, min, max;
};

struct iacpbl_option {
    char portfile[BUFSIZ];
    struct iacpbl_number offsetrank, myrank, nprocs, lport;
    char rhost[BUFSIZ];
    uint32_t rhost_ip;
    struct iacpbl_number rport, taskid;
    struct iacpbl_number szsmem, szsmemcl, szsmemdl;
    struct iacpbl_number mhooksmall, mhooklarge, mhookhuge, mhooklow, mhookhigh;
    struct iacpbl_number ethspeed;
};
_Static_assert(BUFSIZ != 8192 || sizeof(struct iacpbl_option) == 16752, "layout of the clients");
_Static_assert(BUFSIZ != 8192 || offsetof(struct iacpbl_option, mhooksmall) == 16608, "");
_Static_assert(BUFSIZ != 8192 || offsetof(struct iacpbl_option, mhooklarge) == 16632, "");
_Static_assert(BUFSIZ != 8192 || offsetof(struct iacpbl_option, mhookhuge) == 16656, "");
_Static_assert(BUFSIZ != 8192 || offsetof(struct iacpbl_option, mhooklow) == 16680, "");
_Static_assert(BUFSIZ != 8192 || offsetof(struct iacpbl_option, mhookhigh) == 16704, "");

enum { SMEM = 10240 };
#define MAX_SMEM (1ull << 40)

extern struct iacpbl_option iacpbl_option;
extern size_t iacp_starter_memory_size_cl, iacp_starter_memory_size_dl;

PUBLIC struct iacpbl_option iacpbl_option = {
    .offsetrank = {0, 0, INT32_MAX},
    .myrank = {0, 0, INT32_MAX},
    .nprocs = {1, 1, INT32_MAX},
    .lport = {0, 0, 65535},
    .rport = {0, 0, 65535},
    .taskid = {0, 0, UINT32_MAX},
    .szsmem = {SMEM, 0, MAX_SMEM},
    .szsmemcl = {SMEM, 0, MAX_SMEM},
    .szsmemdl = {SMEM, 0, MAX_SMEM},
    .mhooksmall = {0, 0, 1},
    .mhooklarge = {0, 0, 1},
    .mhookhuge = {0, 0, 1},
    .mhooklow = {128, 0, UINT64_MAX},
    .mhookhigh = {131072, 0, UINT64_MAX},
    .ethspeed = {0, 0, UINT64_MAX},
};

/* A program without an upper layer may define these with value 0. */
PUBLIC size_t iacp_starter_memory_size_cl = SMEM;
PUBLIC size_t iacp_starter_memory_size_dl = SMEM;

static const struct option {
    const char *name;
    struct iacpbl_number *number; /* either this */
    char *string;
    const char *help;
} options[] = {
    {"size-smem", &iacpbl_option.szsmem, NULL, "bytes of starter memory of a process (10240)"},
    {"size-smem-cl", &iacpbl_option.szsmemcl, NULL, "... of its channels (10240)"},
    {"size-smem-dl", &iacpbl_option.szsmemdl, NULL, "... of its data library (10240)"},
    {"malloc-hook-small", &iacpbl_option.mhooksmall, NULL, "0 or 1, for the data library"},
    {"malloc-hook-large", &iacpbl_option.mhooklarge, NULL, "0 or 1, for the data library"},
    {"malloc-hook-huge", &iacpbl_option.mhookhuge, NULL, "0 or 1, for the data library"},
    {"malloc-hook-low", &iacpbl_option.mhooklow, NULL, "bytes, for the data library (128)"},
    {"malloc-hook-high", &iacpbl_option.mhookhigh, NULL, "bytes, for the data library (131072)"},
    {"myrank", &iacpbl_option.myrank, NULL, "rank of this process (what the launcher says)"},
    {"nprocs", &iacpbl_option.nprocs, NULL, "number of processes (what the launcher says)"},
    {"ethernet-speed", &iacpbl_option.ethspeed, NULL, "without effect here"},
    {"taskid", &iacpbl_option.taskid, NULL, "without effect here"},
    {"portfile", NULL, iacpbl_option.portfile, "without effect here"},
    {"offsetrank", &iacpbl_option.offsetrank, NULL, "without effect here"},
    {"port-local", &iacpbl_option.lport, NULL, "without effect here"},
    {"host-remote", NULL, iacpbl_option.rhost, "without effect here"},
    {"port-remote", &iacpbl_option.rport, NULL, "without effect here"},
};

static void print_usage(void)
{
    fprintf(stderr, "Options of the ACP basic layer:\n");
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        fprintf(stderr, "  --acp-%s %s  %s\n", options[i].name,
                options[i].number != NULL ? "N" : "TEXT", options[i].help);
}

static bool set_number(const char *name, struct iacpbl_number *number, const char *text)
{
    char *end;
    unsigned long long n;

    errno = 0;
    n = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && n >= number->min &&
        n <= number->max) {
        number->value = n;
        return true;
    }
    al_log("--acp-%s %s: a number from %llu to %llu is wanted", name, text,
           (unsigned long long)number->min, (unsigned long long)number->max);
    return false;
}

static bool set_string(const char *name, char *string, const char *text)
{
    if (strlen(text) < BUFSIZ) {
        strcpy(string, text);
        return true;
    }
    al_log("--acp-%s: a text of less than %d bytes is wanted", name, BUFSIZ);
    return false;
}

static const struct option *find_option(const char *argument)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (strcmp(argument + strlen("--acp-"), options[i].name) == 0)
            return &options[i];
    al_log("there is no option %s", argument);
    return NULL;
}

/* Also sets the variables of the upper layers. */
static void apply_option(const struct option *option)
{
    if (option->number == &iacpbl_option.szsmemcl)
        iacp_starter_memory_size_cl = iacpbl_option.szsmemcl.value;
    else if (option->number == &iacpbl_option.szsmemdl)
        iacp_starter_memory_size_dl = iacpbl_option.szsmemdl.value;
    else if (option->number == &iacpbl_option.myrank)
        al.given.rank = true;
    else if (option->number == &iacpbl_option.nprocs)
        al.given.procs = true;
}

static bool parse_option(const char *argument, const char *value)
{
    const struct option *option = find_option(argument);

    if (option == NULL)
        return false;
    if (value == NULL) {
        al_log("%s: its value is missing", argument);
        return false;
    }
    if (option->number != NULL ? !set_number(option->name, option->number, value)
                               : !set_string(option->name, option->string, value))
        return false;
    apply_option(option);
    return true;
}

bool al_options_parse(int *argc, char ***argv)
{
    int kept = 1;

    if (argc == NULL || argv == NULL || *argv == NULL || *argc < 1)
        return true;
    for (int i = 1; i < *argc; i++) {
        char *argument = (*argv)[i];

        if (strncmp(argument, "--acp-", 6) != 0) {
            (*argv)[kept++] = argument;
            continue;
        }
        if (!parse_option(argument, i + 1 < *argc ? (*argv)[i + 1] : NULL)) {
            print_usage();
            return false;
        }
        i++;
    }
    (*argv)[kept] = NULL;
    *argc = kept;
    return true;
}

void al_options_sizes(size_t sizes[AL_STARTERS])
{
    sizes[0] = iacpbl_option.szsmem.value;
    sizes[1] = iacp_starter_memory_size_cl;
    sizes[2] = iacp_starter_memory_size_dl;
}

bool al_option_rank(uint32_t *rank)
{
    if (al.given.rank)
        *rank = (uint32_t)iacpbl_option.myrank.value;
    return al.given.rank;
}

bool al_option_procs(uint32_t *procs)
{
    if (al.given.procs)
        *procs = (uint32_t)iacpbl_option.nprocs.value;
    return al.given.procs;
}

uint64_t al_option_first_handle(void)
{
    const char *text = getenv("ACP_FIRST_HANDLE");
    unsigned long long n = text == NULL ? 1 : strtoull(text, NULL, 0);

    return n >= 1 && n < INT64_MAX ? n : 1;
}
