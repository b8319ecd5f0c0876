/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the facts, through the public interface if possible. */
#include "info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"
#include "runtime/setup.h"

const char info_onesided_flags[] = "session mode|ARMW";
const char info_armw_ops[] = "cswap|swap|add|xor|and|or";
const char info_reduce_ops[] = "|barrier|band|bor|bxor|max|maxloc|sum|bfpsum";

void info_bits(char *buf, size_t size, unsigned long flags, const char *names)
{
    size_t used = 0;

    buf[0] = '\0';
    for (unsigned long bit = 1; names; bit <<= 1) {
        size_t n = strcspn(names, "|");
        if ((flags & bit) && used < size)
            used += (size_t)snprintf(buf + used, size - used, "%s%.*s", used ? ", " : "", (int)n,
                                     names);
        names = names[n] ? names + n + 1 : NULL;
    }
}

const char *info_launcher(const char *name)
{
    static const struct {
        const char *name, *text;
    } launchers[] = {
        {"pmix", "PMIx (Open MPI, PRRTE, Slurm)"},
        {"pmi1", "PMI-1 (MPICH's hydra, Slurm)"},
        {"utofurun", "utofurun"},
        {"hand", "UTOFU_RANK, UTOFU_SIZE and UTOFU_ROOT, set by hand"},
        {"solo", "none: a process alone"},
    };

    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
        if (strcmp(launchers[i].name, name) == 0)
            return launchers[i].text;
    return name;
}

/* ---- variables ---- */

static void choice(const char *choices, uint64_t index, char *buf, size_t size)
{
    while (index-- > 0 && choices) {
        choices = strchr(choices, '|');
        choices = choices ? choices + 1 : NULL;
    }
    snprintf(buf, size, "%.*s", choices ? (int)strcspn(choices, "|") : 0, choices ? choices : "");
}

static void number_or_choice(const struct ut_env_entry *e, uint64_t value, char *buf, size_t size)
{
    if (e->type == UT_ENV_TYPE_ENUM)
        choice(e->choices, value, buf, size);
    else
        snprintf(buf, size, "%llu", (unsigned long long)value);
}

void info_env_default(const struct ut_env_entry *entry, char *buf, size_t size)
{
    if (entry->type == UT_ENV_TYPE_STR || entry->type == UT_ENV_TYPE_KEY)
        snprintf(buf, size, "%s", entry->choices ? entry->choices : "");
    else if (entry->type == UT_ENV_TYPE_LIST)
        choice(entry->choices, 0, buf, size);
    else if (entry->type == UT_ENV_TYPE_OPTIONS)
        snprintf(buf, size, "none");
    else
        number_or_choice(entry, entry->def, buf, size);
}

void info_env_value(const struct ut_env_entry *entry, char *buf, size_t size)
{
    if (entry->type == UT_ENV_TYPE_KEY) /* never printed */
        snprintf(buf, size, "%s", entry->is_set ? "(not shown)" : "");
    else if (entry->why_bad || entry->type == UT_ENV_TYPE_OPTIONS)
        snprintf(buf, size, "%s", entry->text ? entry->text : "");
    else if (entry->type == UT_ENV_TYPE_STR || entry->type == UT_ENV_TYPE_LIST)
        snprintf(buf, size, "%s", entry->str);
    else
        number_or_choice(entry, entry->value, buf, size);
}

const char *info_env_type(const struct ut_env_entry *entry)
{
    static const char *const names[] = {
        [UT_ENV_TYPE_UINT] = "number",     [UT_ENV_TYPE_BOOL] = "boolean",
        [UT_ENV_TYPE_FLAG] = "integer",    [UT_ENV_TYPE_ENUM] = "choice",
        [UT_ENV_TYPE_MRQ] = "number",      [UT_ENV_TYPE_STR] = "text",
        [UT_ENV_TYPE_KEY] = "key",         [UT_ENV_TYPE_LIST] = "list",
        [UT_ENV_TYPE_OPTIONS] = "options",
    };

    return names[entry->type];
}

/* "UTOFU_ARMW=nic" or "UTOFU_ARMW is cpu, the default". */
static void setting(enum ut_env_id id, char *buf, size_t size)
{
    const struct ut_env_entry *e = ut_env_get(id);
    char value[64];

    info_env_value(e, value, sizeof(value));
    snprintf(buf, size, e->is_set ? "%s=%s" : "%s is %s, the default", e->name, value);
}

/* ---- ports, TNIs, reasons ---- */

static void note_port(void *ctx, const struct prov_port *port)
{
    struct info *info = ctx;

    if (info->num_ports == INFO_MAX_PORTS)
        return;
    info->ports[info->num_ports++] = *port;
    info->num_used_ports += port->tnis != 0;
}

static void survey(struct info *info)
{
    struct prov_config config = {
        .num_tnis = UT_NUM_TNIS,
        .peer_timeout_ms = (unsigned int)ut_env_num(UT_ENV_PEER_TIMEOUT) * 1000,
        .job_timeout_ms = (unsigned int)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000,
        .job_size = info->process ? info->process->job->size : 1,
        .local_size = info->process ? info->process->job->local_size : 1,
        .local_rank = info->process ? info->process->job->local_rank : 0,
    };
    int threshold = ut_log_threshold;

    ut_log_threshold = UT_LOG_NONE; /* it is already logged */
    for (int i = 0; i < PROV_COUNT; i++)
        if (prov_registry[i].ops->survey)
            prov_registry[i].ops->survey(&config, info, note_port);
    ut_log_threshold = threshold;
}

static void gather_tnis(struct info *info)
{
    utofu_tni_id_t *ids;
    size_t num;

    if (utofu_get_onesided_tnis(&ids, &num) != UTOFU_SUCCESS)
        return;
    for (size_t i = 0; i < num && info->num_tnis < UT_NUM_TNIS; i++) {
        struct info_tni *tni = &info->tnis[info->num_tnis++];
        struct utofu_onesided_caps *onesided;
        struct utofu_barrier_caps *barrier;
        tni->id = ids[i];
        if (utofu_query_onesided_caps(ids[i], &onesided) == UTOFU_SUCCESS)
            tni->onesided = onesided;
        if (utofu_query_barrier_caps(ids[i], &barrier) == UTOFU_SUCCESS)
            tni->barrier = barrier;
        for (int p = 0; p < PROV_COUNT; p++) {
            struct prov *prov = info->process->prov[p];
            if (prov)
                prov->ops->caps(prov, ids[i], &tni->transport[p]);
        }
    }
    free(ids);
}

/* Why the provider ofi is used, or not. */
static const char *explain_fabric(const struct info *info, bool verbs)
{
#ifdef PROV_WITH_OFI
    if (verbs)
        return "";
    if (info->process->prov[PROV_INDEX_ofi])
        return ", so libfabric reaches other hosts";
    if (ut_job_is_on_one_host(info->process->job))
        return ", and the job stays on this host";
    return ", and libfabric has no fabric that can be used";
#else
    return verbs || ut_job_is_on_one_host(info->process->job)
               ? ""
               : ", and this build has no provider ofi";
#endif
}

static void explain_provider(struct info *info)
{
    bool verbs = info->process->prov[PROV_INDEX_verbs] != NULL;
    bool shm = info->process->prov[PROV_INDEX_shm] != NULL;
    char set[96], found[96];

    setting(UT_ENV_PROVIDER, set, sizeof(set));
    if (ut_env_num(UT_ENV_PROVIDER) != UT_PROVIDER_AUTO) {
        snprintf(info->provider_why, sizeof(info->provider_why), "%s", set);
        return;
    }
    if (info->num_ports == 0)
        snprintf(found, sizeof(found), "there is no RDMA device");
    else if (!verbs)
        snprintf(found, sizeof(found), "no RDMA port can be used (of %u)", info->num_ports);
    else
        snprintf(found, sizeof(found), "%u RDMA port%s in use (of %u)", info->num_used_ports,
                 info->num_used_ports == 1 ? " is" : "s are", info->num_ports);
    snprintf(info->provider_why, sizeof(info->provider_why), "%s; %s%s%s", set, found,
             explain_fabric(info, verbs),
             shm && verbs ? "; processes of one host meet in memory" : "");
}

static void explain_armw(struct info *info)
{
    uint64_t wanted = ut_env_num(UT_ENV_ARMW);
    char set[96];
    const char *because = "";

    setting(UT_ENV_ARMW, set, sizeof(set));
    if (wanted == UT_ARMW_AUTO && info->process->armw_mode == UT_ARMW_NIC)
        because = "; all devices are coherent with the CPU";
    else if (wanted == UT_ARMW_AUTO && info->process->prov[PROV_INDEX_shm])
        because = "; devices reach only some of the peers (UTOFU_PROVIDER=verbs: all)";
    else if (wanted == UT_ARMW_AUTO)
        because = "; not every device has atomics that are coherent with the CPU";
    snprintf(info->armw_why, sizeof(info->armw_why), "%s%s", set, because);
}

void info_gather(struct info *info)
{
    const struct ut_process *process;

    memset(info, 0, sizeof(*info));
    gethostname(info->host, sizeof(info->host) - 1);
    utofu_query_tofu_version(&info->tofu_version[0], &info->tofu_version[1]);
    utofu_query_utofu_version(&info->utofu_version[0], &info->utofu_version[1]);
    if (ut_runtime_start(&process) == 0)
        info->process = process;
    else if (ut_process_environment())
        snprintf(info->error, sizeof(info->error), "a variable has a value that is not allowed");
    else
        ut_log_last_error(info->error, sizeof(info->error));
    survey(info);
    if (!info->process)
        return;
    if (utofu_query_my_coords(info->coords) != UTOFU_SUCCESS)
        ut_log_last_error(info->error, sizeof(info->error));
    gather_tnis(info);
    explain_provider(info);
    explain_armw(info);
}
