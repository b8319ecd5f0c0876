/* SPDX-License-Identifier: Apache-2.0 */
#include "process/cqs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/env.h"
#include "util/log.h"

enum { FUGAKU_CQS = 12, FUGAKU_MAX_LOCAL = 48 };

struct place {
    unsigned int tni, number;
};

/*
 * UTOFU_CQ_MAP=fugaku
 */

/* The first CQ of local rank n on Fugaku, on a node with `max` processes: 1 to 48. */
static struct place find_fugaku_place(unsigned int max, unsigned int n)
{
    static const uint8_t numbers[5][8] = {
        {0, 2, 5, 8},           {0, 2, 5, 8, 10},          {0, 2, 5, 8, 9, 10},
        {0, 2, 5, 6, 8, 9, 10}, {0, 2, 4, 5, 6, 8, 9, 10},
    };
    unsigned int apart = max <= 4 ? 1 : max <= 8 ? 3 : max <= 12 ? 2 : 1;
    unsigned int tnis = max <= 4 ? max : max <= 8 ? 2 : max <= 12 ? 3 : UT_NUM_TNIS;
    unsigned int row = max <= 24 ? 0 : (max - 19) / 6;

    if (max <= 3)
        return (struct place){n, max == 1 ? 0 : n * FUGAKU_CQS / max};
    if (max == 4)
        return (struct place){n, numbers[0][n]};
    return (struct place){n % tnis * apart, numbers[row][n / tnis]};
}

/* Up to four processes have different numbers. So each of them has its number on all TNIs. */
static bool has_fugaku_number(unsigned int max, unsigned int n, unsigned int tni,
                              unsigned int *number)
{
    struct place place = find_fugaku_place(max, n);

    *number = place.number;
    return max <= 4 || place.tni == tni;
}

uint16_t ut_cq_number(const struct ut_process *process, unsigned int tni, unsigned int id)
{
    unsigned int n = id / process->num_cqs, number;

    if (!process->fugaku_cqs)
        return (uint16_t)id;
    if (id % process->num_cqs == 0 && n < process->most_local &&
        has_fugaku_number(process->most_local, n, tni, &number))
        return (uint16_t)number;
    return (uint16_t)(FUGAKU_CQS + id);
}

int32_t ut_cq_of_number(const struct ut_process *process, unsigned int tni, unsigned int number)
{
    unsigned int found;

    if (!process->fugaku_cqs)
        return (int32_t)number;
    if (number >= FUGAKU_CQS) {
        unsigned int id = number - FUGAKU_CQS;
        return ut_cq_number(process, tni, id) == number ? (int32_t)id : -1;
    }
    for (unsigned int n = 0; n < process->most_local; n++) {
        if (has_fugaku_number(process->most_local, n, tni, &found) && found == number)
            return (int32_t)(n * process->num_cqs);
    }
    return -1;
}

/*
 * Lists
 */

static int alloc_list(struct ut_process *process, const char *map)
{
    const char *p = map;

    for (uint32_t i = 0; i < process->job->local_rank && p; i++) {
        p = strchr(p, '/');
        p = p ? p + 1 : NULL;
    }
    while (p && *p >= '0' && *p <= '9' && process->num_cqs < UT_MAX_CQS) {
        char *end;
        unsigned long id = strtoul(p, &end, 10);
        if (id > UT_MAX_CQ_ID)
            return -EINVAL;
        process->cq_ids[process->num_cqs++] = (uint16_t)id;
        if (*end != ',')
            return *end == '/' || *end == '\0' ? 0 : -EINVAL;
        p = end + 1;
    }
    return -EINVAL;
}

/* Counts how often a CQ stands in a map. Invalid numbers of other processes do not matter. */
static unsigned int count_in_map(const char *map, uint16_t id)
{
    unsigned int n = 0;
    char *end;

    for (const char *p = map; *p; p = *end ? end + 1 : end) {
        unsigned long other = strtoul(p, &end, 10);
        n += end != p && other == id;
    }
    return n;
}

/* Refuses CQs that two processes, or two VCQs of one process, would share: their VCQ ids would be
 * equal. */
static int refuse_shared_cqs(const struct ut_process *process, const char *map)
{
    for (unsigned int i = 0; i < process->num_cqs; i++) {
        if (count_in_map(map, process->cq_ids[i]) == 1)
            continue;
        ut_error("process", "UTOFU_CQ_MAP=%s gives CQ %u more than once; each may be in one list",
                 map, process->cq_ids[i]);
        return UTOFU_ERR_FATAL;
    }
    return 0;
}

static int alloc_by_list(struct ut_process *process, const char *map)
{
    if (alloc_list(process, map) == 0)
        return refuse_shared_cqs(process, map);
    ut_error("process",
             "UTOFU_CQ_MAP=%s has no list of CQ ids (0 to %d, at most %d) for local rank %u; "
             "give one list a,b,c per local rank, separated by /",
             map, UT_MAX_CQ_ID, UT_MAX_CQS, process->job->local_rank);
    return UTOFU_ERR_FATAL;
}

/*
 * The same number of CQs for each process
 */

/* A process alone on its node gets the nine CQs of a TNI. Two processes get four each, more get
 * three each. */
static unsigned long stride_for(uint32_t processes)
{
    return processes <= 1 ? 9 : processes == 2 ? 4 : 3;
}

/* The number of CQs per process; 0 after an error line. */
static unsigned long read_stride(struct ut_process *process, const char *map)
{
    if (strncmp(map, "stride:", 7) == 0) {
        char *end;
        unsigned long stride = strtoul(map + 7, &end, 10);
        if (!*end && stride >= 1 && stride <= UT_MAX_CQS)
            return stride;
        ut_error("process", "UTOFU_CQ_MAP=%s: the stride is a number from 1 to %d", map,
                 UT_MAX_CQS);
    } else if (strcmp(map, "fugaku") == 0) {
        process->fugaku_cqs = true;
        process->most_local = ut_job_max_per_node();
        if (process->most_local <= FUGAKU_MAX_LOCAL) {
            ut_vbg_id_share_gates(process->most_local);
            return stride_for(process->most_local);
        }
        ut_error("process",
                 "UTOFU_CQ_MAP=fugaku is for at most %d processes on a node, and this job has %u; "
                 "use auto",
                 FUGAKU_MAX_LOCAL, process->most_local);
    } else if (strcmp(map, "auto") == 0) {
        return stride_for(process->job->local_size);
    } else {
        ut_error("process", "UTOFU_CQ_MAP=%s: use auto, fugaku, stride:N or lists of CQ ids", map);
    }
    return 0;
}

int ut_cqs_alloc(struct ut_process *process)
{
    const char *map = ut_env_str(UT_ENV_CQ_MAP);
    uint32_t local_rank = process->job->local_rank;

    process->num_cqs = 0;
    if (*map >= '0' && *map <= '9')
        return alloc_by_list(process, map);
    unsigned long stride = read_stride(process, map);
    if (stride == 0)
        return UTOFU_ERR_FATAL;
    if ((local_rank + 1ul) * stride > UT_MAX_CQ_ID + 1ul) {
        ut_error("process", "local rank %u is too many for %lu CQs each (CQ ids end at %d)",
                 local_rank, stride, UT_MAX_CQ_ID);
        return UTOFU_ERR_FATAL;
    }
    process->num_cqs = (unsigned int)stride;
    for (unsigned int i = 0; i < process->num_cqs; i++)
        process->cq_ids[i] = (uint16_t)(local_rank * stride + i);
    return 0;
}

/* Leaves at least one CQ for ordinary VCQs. Exclusive CQs precede session-mode ones (manual
 * 4.3.2.2). */
void ut_cqs_reserve(struct ut_process *process)
{
    uint64_t spare = process->num_cqs - 1;
    uint64_t exclusive = ut_env_num(UT_ENV_NUM_EXCLUSIVE_CQS);
    uint64_t session = ut_env_num(UT_ENV_NUM_SESSION_MODE_CQS);

    process->num_exclusive = (unsigned int)(exclusive < spare ? exclusive : spare);
    spare -= process->num_exclusive;
    process->num_session = (unsigned int)(session < spare ? session : spare);
}
