/* SPDX-License-Identifier: Apache-2.0 */
/* The queries: extents, ranks and coordinates. */
#include <string.h>

#include "jobs.h"

/* Logs an error for the calling function. */
#define NULL_POINTER(what)                                                                         \
    jt_fail(__func__, JTOFU_ERR_INVALID_POINTER, "%s is NULL: give where it is", what)

static uint8_t extent_of(uint8_t first, uint8_t last)
{
    return last - first == UINT8_MAX ? UINT8_MAX : (uint8_t)(last - first + 1);
}

int jtofu_query_sys_size(union jtofu_phys_coords *sys_size)
{
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    if (sys_size == NULL)
        rc = NULL_POINTER("sys_size");
    for (int i = 0; rc == JTOFU_SUCCESS && i < JT_AXES; i++)
        sys_size->a[i] = extent_of(0, jt_jobs_own()->layout.last[i]);
    jt_jobs_unlock();
    return rc;
}

int jtofu_query_sys_torus(union jtofu_phys_coords *sys_torus)
{
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    if (sys_torus == NULL)
        rc = NULL_POINTER("sys_torus");
    else
        memcpy(sys_torus->a, jt_jobs_own()->layout.torus, JT_AXES);
    jt_jobs_unlock();
    return rc;
}

int jtofu_query_ref_coords(union jtofu_phys_coords *ref_coords)
{
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    if (ref_coords == NULL)
        rc = NULL_POINTER("ref_coords");
    else
        memcpy(ref_coords->a, jt_jobs_own()->layout.ref, JT_AXES);
    jt_jobs_unlock();
    return rc;
}

static uint8_t job_extent(const struct jt_layout *layout, int axis)
{
    uint8_t first = UINT8_MAX, last = 0;

    for (uint32_t n = 0; n < layout->nodes; n++) {
        first = layout->phys[n][axis] < first ? layout->phys[n][axis] : first;
        last = layout->phys[n][axis] > last ? layout->phys[n][axis] : last;
    }
    return extent_of(first, last);
}

int jtofu_query_phys_size(union jtofu_phys_coords *phys_size)
{
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    if (phys_size == NULL)
        rc = NULL_POINTER("phys_size");
    for (int i = 0; rc == JTOFU_SUCCESS && i < JT_AXES; i++)
        phys_size->a[i] = job_extent(&jt_jobs_own()->layout, i);
    jt_jobs_unlock();
    return rc;
}

int jtofu_query_log_size(union jtofu_log_coords *log_size)
{
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    if (log_size == NULL)
        rc = NULL_POINTER("log_size");
    else
        memcpy(log_size->a, jt_jobs_own()->layout.log, sizeof(log_size->a));
    jt_jobs_unlock();
    return rc;
}

int jtofu_query_max_proc_per_node(void)
{
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    rc = (int)jt_jobs_own()->max_ppn;
    jt_jobs_unlock();
    return rc;
}

/* Finds the node of a rank of a job. JTOFU_SUCCESS, or an error that is logged. */
static int find_node(const char *function, jtofu_job_id_t job_id, jtofu_rank_t rank,
                     const struct jt_map **map, uint32_t *node)
{
    int rc = jt_jobs_find(function, job_id, map);

    if (rc != JTOFU_SUCCESS)
        return rc;
    if (rank >= (*map)->layout.procs)
        return jt_fail(function, JTOFU_ERR_INVALID_ARG, "rank %u: job %u has %u processes", rank,
                       job_id, (*map)->layout.procs);
    *node = (*map)->layout.node_of[rank];
    return JTOFU_SUCCESS;
}

int jtofu_query_phys_coords(jtofu_job_id_t job_id, jtofu_rank_t rank,
                            union jtofu_phys_coords *phys_coords)
{
    const struct jt_map *map;
    uint32_t node;
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    rc = phys_coords == NULL ? NULL_POINTER("phys_coords")
                             : find_node(__func__, job_id, rank, &map, &node);
    if (rc == JTOFU_SUCCESS)
        memcpy(phys_coords->a, map->layout.phys[node], JT_AXES);
    jt_jobs_unlock();
    return rc;
}

int jtofu_query_log_coords(jtofu_job_id_t job_id, jtofu_rank_t rank,
                           union jtofu_log_coords *log_coords)
{
    const struct jt_map *map;
    uint32_t node;
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    rc = log_coords == NULL ? NULL_POINTER("log_coords")
                            : find_node(__func__, job_id, rank, &map, &node);
    if (rc == JTOFU_SUCCESS) {
        log_coords->s.x = node % map->layout.log[0];
        log_coords->s.y = node / map->layout.log[0] % map->layout.log[1];
        log_coords->s.z = node / map->layout.log[0] / map->layout.log[1];
    }
    jt_jobs_unlock();
    return rc;
}

static void list_ranks(const struct jt_map *map, int64_t node, size_t max_ranks,
                       jtofu_rank_t *ranks, size_t *num_ranks)
{
    size_t num = node < 0 ? 0 : map->first[node + 1] - map->first[node];

    num = num < max_ranks ? num : max_ranks;
    if (num > 0)
        memcpy(ranks, map->ranks + map->first[node], num * sizeof(*ranks));
    *num_ranks = num;
}

static int check_list(const char *function, const void *coords, size_t max, const void *list,
                      const size_t *num)
{
    if (coords != NULL && num != NULL && (list != NULL || max == 0))
        return JTOFU_SUCCESS;
    return jt_fail(function, JTOFU_ERR_INVALID_POINTER, "%s is NULL: give where it is",
                   coords == NULL ? "what the coordinates are read from"
                   : num == NULL  ? "what the number is written to"
                                  : "the array");
}

static int check_phys(const char *function, const struct jt_map *map,
                      const union jtofu_phys_coords *at)
{
    for (int i = 0; i < JT_AXES; i++)
        if (at->a[i] > map->layout.last[i])
            return jt_fail(function, JTOFU_ERR_INVALID_ARG,
                           "the system has no node at %u,%u,%u,%u,%u,%u: its coordinates end at "
                           "%u,%u,%u,%u,%u,%u",
                           at->a[0], at->a[1], at->a[2], at->a[3], at->a[4], at->a[5],
                           map->layout.last[0], map->layout.last[1], map->layout.last[2],
                           map->layout.last[3], map->layout.last[4], map->layout.last[5]);
    return JTOFU_SUCCESS;
}

int jtofu_query_ranks_from_phys_coords(jtofu_job_id_t job_id, union jtofu_phys_coords *phys_coords,
                                       size_t max_ranks, jtofu_rank_t *ranks, size_t *num_ranks)
{
    const struct jt_map *map;
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    rc = check_list(__func__, phys_coords, max_ranks, ranks, num_ranks);
    if (rc == JTOFU_SUCCESS)
        rc = jt_jobs_find(__func__, job_id, &map);
    if (rc == JTOFU_SUCCESS)
        rc = check_phys(__func__, map, phys_coords);
    if (rc == JTOFU_SUCCESS)
        list_ranks(map, jt_map_node_at(map, phys_coords->a), max_ranks, ranks, num_ranks);
    jt_jobs_unlock();
    return rc;
}

static int check_log(const char *function, const struct jt_map *map,
                     const union jtofu_log_coords *at)
{
    const uint32_t *size = map->layout.log;

    if (at->a[0] < size[0] && at->a[1] < size[1] && at->a[2] < size[2])
        return JTOFU_SUCCESS;
    return jt_fail(function, JTOFU_ERR_INVALID_ARG,
                   "the grid has no place %u,%u,%u: it is %u x %u x %u", at->a[0], at->a[1],
                   at->a[2], size[0], size[1], size[2]);
}

int jtofu_query_ranks_from_log_coords(jtofu_job_id_t job_id, union jtofu_log_coords *log_coords,
                                      size_t max_ranks, jtofu_rank_t *ranks, size_t *num_ranks)
{
    const struct jt_map *map;
    int rc = jt_jobs_lock(__func__);

    if (rc != JTOFU_SUCCESS)
        return rc;
    rc = check_list(__func__, log_coords, max_ranks, ranks, num_ranks);
    if (rc == JTOFU_SUCCESS)
        rc = jt_jobs_find(__func__, job_id, &map);
    if (rc == JTOFU_SUCCESS)
        rc = check_log(__func__, map, log_coords);
    if (rc == JTOFU_SUCCESS)
        list_ranks(map,
                   log_coords->a[0] +
                       (int64_t)map->layout.log[0] *
                           (log_coords->a[1] + (int64_t)map->layout.log[1] * log_coords->a[2]),
                   max_ranks, ranks, num_ranks);
    jt_jobs_unlock();
    return rc;
}

void jtofu_query_jtofu_version(int *major_ver, int *minor_ver)
{
    if (major_ver != NULL)
        *major_ver = JTOFU_VERSION_MAJOR;
    if (minor_ver != NULL)
        *minor_ver = JTOFU_VERSION_MINOR;
}

/*
 * Paths
 */

static uint32_t count_hops(const struct jt_layout *layout, int axis, uint8_t from, uint8_t to)
{
    uint32_t straight = from < to ? to - from : from - to;
    uint32_t round = layout->last[axis] + 1u - straight;

    return layout->torus[axis] && round < straight ? round : straight;
}

static uint32_t count_all_hops(const struct jt_layout *layout, const uint8_t from[JT_AXES],
                               const uint8_t to[JT_AXES])
{
    uint32_t hops = 0;

    for (int i = 0; i < JT_AXES; i++)
        hops += count_hops(layout, i, from[i], to[i]);
    return hops;
}

/* A path leads to its own A, B, C first, then along X, Y, Z, and then to the A, B, C of the node.
 * Counts the hops along A, B and C. */
static uint32_t count_path_hops(const struct jt_layout *layout, const uint8_t from[JT_AXES],
                                const uint8_t to[JT_AXES], const uint8_t path[3])
{
    uint32_t hops = 0;

    for (int i = 0; i < 3; i++)
        hops += count_hops(layout, 3 + i, from[3 + i], path[i]) +
                count_hops(layout, 3 + i, path[i], to[3 + i]);
    return hops;
}

/* Lists paths by their number of hops; paths with equal numbers in the order of their coordinates.
 * */
static size_t list_paths(const struct jt_layout *layout, const uint8_t from[JT_AXES],
                         const uint8_t to[JT_AXES], size_t max,
                         union jtofu_path_coords path_coords[])
{
    uint32_t most = 2 * (layout->last[3] + layout->last[4] + layout->last[5]);
    size_t num = 0;

    for (uint32_t hops = 0; hops <= most; hops++)
        for (uint32_t n = 0; n < JT_GROUP && num < max; n++) {
            union jtofu_path_coords path = {.s = {(uint8_t)(n / (JT_B * JT_C)),
                                                  (uint8_t)(n / JT_C % JT_B), (uint8_t)(n % JT_C)}};

            if (count_path_hops(layout, from, to, path.a) == hops)
                path_coords[num++] = path;
        }
    return num;
}

static const uint8_t *own_coords(void)
{
    const struct jt_layout *layout = &jt_jobs_own()->layout;

    return layout->phys[layout->node_of[jt_jobs_rank()]];
}

static int query_paths(const char *function, const union jtofu_phys_coords *to, size_t max,
                       union jtofu_path_coords path_coords[], size_t *num)
{
    int rc = jt_jobs_lock(function);

    if (rc != JTOFU_SUCCESS)
        return rc;
    rc = check_list(function, to, max, path_coords, num);
    if (rc == JTOFU_SUCCESS)
        rc = check_phys(function, jt_jobs_own(), to);
    if (rc == JTOFU_SUCCESS)
        *num = list_paths(&jt_jobs_own()->layout, own_coords(), to->a, max, path_coords);
    jt_jobs_unlock();
    return rc;
}

int jtofu_query_onesided_paths(union jtofu_phys_coords *phys_coords, size_t max_paths,
                               union jtofu_path_coords path_coords[], size_t *num_paths)
{
    return query_paths(__func__, phys_coords, max_paths, path_coords, num_paths);
}

int jtofu_query_barrier_paths(union jtofu_phys_coords *phys_coords, size_t max_paths,
                              union jtofu_path_coords path_coords[], size_t *num_paths)
{
    return query_paths(__func__, phys_coords, max_paths, path_coords, num_paths);
}

static int query_hops(const char *function, const union jtofu_phys_coords *to, size_t *num)
{
    int rc = jt_jobs_lock(function);

    if (rc != JTOFU_SUCCESS)
        return rc;
    rc = check_list(function, to, 0, NULL, num);
    if (rc == JTOFU_SUCCESS)
        rc = check_phys(function, jt_jobs_own(), to);
    if (rc == JTOFU_SUCCESS)
        *num = count_all_hops(&jt_jobs_own()->layout, own_coords(), to->a);
    jt_jobs_unlock();
    return rc;
}

int jtofu_query_onesided_hops(union jtofu_phys_coords *phys_coords, size_t *num_hops)
{
    return query_hops(__func__, phys_coords, num_hops);
}

int jtofu_query_barrier_hops(union jtofu_phys_coords *phys_coords, size_t *num_hops)
{
    return query_hops(__func__, phys_coords, num_hops);
}
