/* SPDX-License-Identifier: Apache-2.0 */
/**
 * jtofu.h - where the processes of a job are: ranks, nodes and coordinates
 *
 * A map says on which node each process of a job is, and which coordinates the nodes have. A
 * process gets the map of its job from PMIx, under the key FJPMIX_RANKMAP (pmix_fjext.h), or from
 * jtofu_create_mapinfo_by_envvars(), and gives it to jtofu_initialize(). Afterwards the queries
 * need no communication.
 *
 * Nodes have physical coordinates X, Y, Z, A, B, C, which are those of utofu_query_my_coords(), and
 * logical ones x, y, z, of which the nodes of the job fill a grid: every position of it is a node.
 * The logical grid is UTOFU_SHAPE where the product of its numbers is the number of the job's
 * nodes; otherwise N x 1 x 1, the nodes in a row, and process 0 writes a line that says so.
 *
 * A map is made, and understood, by this library alone. It holds its own length and a check sum: a
 * map that is damaged, cut off or none at all is refused.
 *
 * Whatever is refused is explained by a line on standard error.
 *
 * Each function is described in one comment, of which scripts/make-man makes its manual page:
 * purpose, text, parameters, result. Any number of threads may call any of the functions at once.
 */
#ifndef JTOFU_H
#define JTOFU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * Types and constants
 */

#define JTOFU_VERSION_MAJOR 0
#define JTOFU_VERSION_MINOR 0

typedef uint32_t jtofu_job_id_t; /* a job, by a number that the program chooses */
typedef uint32_t jtofu_rank_t;   /* a process of a job: 0 to the number of processes less one */

enum jtofu_return_code {
    JTOFU_SUCCESS = 0,
    JTOFU_ERR_NOT_INITIALIZED = -1,
    JTOFU_ERR_NOT_IMPLEMENTED = -2,
    JTOFU_ERR_INVALID_ARG = -3,
    JTOFU_ERR_INVALID_POINTER = -4,
    JTOFU_ERR_EXCESS_FINALIZE = -5,
    JTOFU_ERR_OUT_OF_MEMORY = -6,
    JTOFU_ERR_INTERNAL = -100,
};

union jtofu_phys_coords { /* of a node in the system */
    struct {
        uint8_t x, y, z, a, b, c;
    } s;
    uint8_t a[6];
};

union jtofu_log_coords { /* of a node in the job */
    struct {
        uint32_t x, y, z;
    } s;
    uint32_t a[3];
};

union jtofu_path_coords { /* of a path, as utofu_get_path_id() takes them */
    struct {
        uint8_t pa, pb, pc;
    } s;
    uint8_t a[3];
};

/*
 * The job
 */

/**
 * jtofu_initialize - take the map of this job
 *
 * The map is copied. May be called again with the same job, rank and map: then as many calls of
 * jtofu_finalize() are needed.
 *
 * The queries may be called without it: then they answer from a default map of this job, for any
 * job number, because on Fugaku MPI gives the map to the library. The first query makes that map,
 * which may wait for other processes as fjpmix.rankmap does.
 *
 * @param job_id [in] Any number: the queries know the job by it, and by 0 if no other job has that.
 * @param rank [in] The rank of this process in the job.
 * @param mapinfo [in] The map: the bytes of the value of FJPMIX_RANKMAP.
 * @return JTOFU_SUCCESS: The queries know the job.
 * @return JTOFU_ERR_INVALID_POINTER: mapinfo is NULL.
 * @return JTOFU_ERR_INVALID_ARG: mapinfo is no map of this library, or is damaged; the map has no
 *     such rank; or there was a call with another job, rank or map before.
 * @return JTOFU_ERR_OUT_OF_MEMORY: There is no memory for a copy of the map.
 */
int jtofu_initialize(jtofu_job_id_t job_id, jtofu_rank_t rank, const void *mapinfo);

/**
 * jtofu_finalize - forget all jobs
 *
 * The last of as many calls as there were of jtofu_initialize() forgets the maps, also those of
 * jtofu_add_job(). Then jtofu_initialize() may be called again.
 *
 * @return JTOFU_SUCCESS: The call counts.
 * @return JTOFU_ERR_EXCESS_FINALIZE: There were as many calls as of jtofu_initialize() already.
 */
int jtofu_finalize(void);

/**
 * jtofu_add_job - take the map of another job
 *
 * The map is copied.
 *
 * @param job_id [in] Any number that no job has yet.
 * @param mapinfo [in] The map of that job, made by the same version of this library.
 * @return JTOFU_SUCCESS: The queries know the job.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called.
 * @return JTOFU_ERR_INVALID_POINTER: mapinfo is NULL.
 * @return JTOFU_ERR_INVALID_ARG: mapinfo is no map of this library, or is damaged; or there is a
 *     job with this number.
 * @return JTOFU_ERR_OUT_OF_MEMORY: There is no memory for a copy of the map.
 */
int jtofu_add_job(jtofu_job_id_t job_id, const void *mapinfo);

/**
 * jtofu_delete_job - forget another job
 *
 * @param job_id [in] The number that was given to jtofu_add_job().
 * @return JTOFU_SUCCESS: The queries do not know the job any more.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called.
 * @return JTOFU_ERR_INVALID_ARG: There is no such job, or it is that of jtofu_initialize().
 */
int jtofu_delete_job(jtofu_job_id_t job_id);

/*
 * Extents
 */

/**
 * jtofu_query_sys_size - get the extents of the system
 *
 * The system is the smallest one that has the coordinates of all nodes of this job, in whole
 * groups of 2 x 3 x 2 nodes (A, B, C); or the one of JTOFU_MAPINFO_SYSTEM_SIZE.
 *
 * @param sys_size [out] How many coordinates there are on each axis; 255 if there are 256.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: sys_size is NULL.
 */
int jtofu_query_sys_size(union jtofu_phys_coords *sys_size);

/**
 * jtofu_query_sys_torus - get which axes of the system are closed to rings
 *
 * X, Y, Z and B are, A and C are not, as on Fugaku; JTOFU_MAPINFO_SYSTEM_TORUS may say otherwise.
 * It affects numbers of hops and the order of paths only, not the way that data take.
 *
 * @param sys_torus [out] 1 for each axis that is a ring, 0 for each other.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: sys_torus is NULL.
 */
int jtofu_query_sys_torus(union jtofu_phys_coords *sys_torus);

/**
 * jtofu_query_ref_coords - get the reference coordinates of this job
 *
 * @param ref_coords [out] The origin of the system, or the coordinates of JTOFU_MAPINFO_REF.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: ref_coords is NULL.
 */
int jtofu_query_ref_coords(union jtofu_phys_coords *ref_coords);

/**
 * jtofu_query_phys_size - get the physical extents of this job
 *
 * @param phys_size [out] On each axis, from the smallest coordinate of a node of the job to the
 *     largest, both included; 255 if there are 256.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: phys_size is NULL.
 */
int jtofu_query_phys_size(union jtofu_phys_coords *phys_size);

/**
 * jtofu_query_log_size - get the logical extents of this job
 *
 * @param log_size [out] The extents of the grid. Their product is the number of nodes.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: log_size is NULL.
 */
int jtofu_query_log_size(union jtofu_log_coords *log_size);

/*
 * Ranks and coordinates
 */

/**
 * jtofu_query_phys_coords - get the physical coordinates of the node that a process is on
 *
 * @param job_id [in] The job.
 * @param rank [in] The rank of the process in it.
 * @param phys_coords [out] What utofu_query_my_coords() gives in that process.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: phys_coords is NULL.
 * @return JTOFU_ERR_INVALID_ARG: There is no such job, or it has no such rank.
 */
int jtofu_query_phys_coords(jtofu_job_id_t job_id, jtofu_rank_t rank,
                            union jtofu_phys_coords *phys_coords);

/**
 * jtofu_query_log_coords - get the logical coordinates of the node that a process is on
 *
 * @param job_id [in] The job.
 * @param rank [in] The rank of the process in it.
 * @param log_coords [out] Its place in the grid of jtofu_query_log_size().
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: log_coords is NULL.
 * @return JTOFU_ERR_INVALID_ARG: There is no such job, or it has no such rank.
 */
int jtofu_query_log_coords(jtofu_job_id_t job_id, jtofu_rank_t rank,
                           union jtofu_log_coords *log_coords);

/**
 * jtofu_query_max_proc_per_node - get the largest number of processes on a node of this job
 *
 * @return 1 or more: That number, the same in all processes.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 */
int jtofu_query_max_proc_per_node(void);

/**
 * jtofu_query_ranks_from_phys_coords - get the processes on the node with physical coordinates
 *
 * @param job_id [in] The job.
 * @param phys_coords [in] The coordinates.
 * @param max_ranks [in] For how many ranks there is room. The first ones are written if there are
 *     more.
 * @param ranks [out] The ranks on that node, ascending: an array of max_ranks elements.
 * @param num_ranks [out] How many are written: 0 if the node is not one of the job.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: phys_coords or num_ranks is NULL; or ranks, and max_ranks is
 *     not 0.
 * @return JTOFU_ERR_INVALID_ARG: There is no such job, or the system has no such coordinates.
 */
int jtofu_query_ranks_from_phys_coords(jtofu_job_id_t job_id, union jtofu_phys_coords *phys_coords,
                                       size_t max_ranks, jtofu_rank_t *ranks, size_t *num_ranks);

/**
 * jtofu_query_ranks_from_log_coords - get the processes on the node with logical coordinates
 *
 * @param job_id [in] The job.
 * @param log_coords [in] The coordinates.
 * @param max_ranks [in] For how many ranks there is room. The first ones are written if there are
 *     more.
 * @param ranks [out] The ranks on that node, ascending: an array of max_ranks elements.
 * @param num_ranks [out] How many are written.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: log_coords or num_ranks is NULL; or ranks, and max_ranks is
 *     not 0.
 * @return JTOFU_ERR_INVALID_ARG: There is no such job, or its grid has no such coordinates.
 */
int jtofu_query_ranks_from_log_coords(jtofu_job_id_t job_id, union jtofu_log_coords *log_coords,
                                      size_t max_ranks, jtofu_rank_t *ranks, size_t *num_ranks);

/*
 * Paths
 */

/**
 * jtofu_query_onesided_paths, jtofu_query_barrier_paths - get the paths to a node
 *
 * There are twelve to each node. Those with the fewest hops come first, and of equal ones those
 * with the smaller coordinates. The ids of utofu_get_path_id() differ for different paths; the way
 * that data take does not.
 *
 * @param phys_coords [in] The physical coordinates of the node.
 * @param max_paths [in] For how many paths there is room.
 * @param path_coords [out] The best ones: an array of max_paths elements.
 * @param num_paths [out] How many are written.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: phys_coords or num_paths is NULL; or path_coords, and
 * max_paths is not 0.
 * @return JTOFU_ERR_INVALID_ARG: The system has no such coordinates.
 */
int jtofu_query_onesided_paths(union jtofu_phys_coords *phys_coords, size_t max_paths,
                               union jtofu_path_coords path_coords[], size_t *num_paths);
int jtofu_query_barrier_paths(union jtofu_phys_coords *phys_coords, size_t max_paths,
                              union jtofu_path_coords path_coords[], size_t *num_paths);

/**
 * jtofu_query_onesided_hops, jtofu_query_barrier_hops - get how far a node is
 *
 * @param phys_coords [in] The physical coordinates of the node.
 * @param num_hops [out] The sum of the distances on the six axes from the node of this process, the
 *     shorter way round where the axis is a ring.
 * @return JTOFU_SUCCESS: It is written.
 * @return JTOFU_ERR_NOT_INITIALIZED: jtofu_initialize() was not called, and there is no default
 * map.
 * @return JTOFU_ERR_INVALID_POINTER: phys_coords or num_hops is NULL.
 * @return JTOFU_ERR_INVALID_ARG: The system has no such coordinates.
 */
int jtofu_query_onesided_hops(union jtofu_phys_coords *phys_coords, size_t *num_hops);
int jtofu_query_barrier_hops(union jtofu_phys_coords *phys_coords, size_t *num_hops);

/*
 * The library
 */

/**
 * jtofu_query_jtofu_version - get the version of the interface
 *
 * A pointer that is NULL gets nothing.
 *
 * @param major_ver [out] JTOFU_VERSION_MAJOR of the library.
 * @param minor_ver [out] JTOFU_VERSION_MINOR of the library.
 * @return none: None.
 */
void jtofu_query_jtofu_version(int *major_ver, int *minor_ver);

/**
 * jtofu_create_mapinfo_by_envvars - make a map without PMIx
 *
 * The map of what the variables JTOFU_MAPINFO_* describe, whether there is such a job or not; or,
 * where none of them is set, the map of the job that the launcher has started, which PMIx has under
 * FJPMIX_RANKMAP.
 *
 * JTOFU_MAPINFO_NODE (X, XxY or XxYxZ; 1 unless set) is the logical grid of nodes,
 * JTOFU_MAPINFO_SHAPE the same in its place; JTOFU_MAPINFO_PPN (1) the number of processes of each
 * node; JTOFU_MAPINFO_PROC (all places) the number of processes. JTOFU_MAPINFO_RANKMAP is bychip,
 * which fills one node after the other, unless set, or bynode, which gives each node one process in
 * turn. Nodes get physical coordinates in the order that uTofu gives them, from JTOFU_MAPINFO_REF
 * (X,Y,Z; 0,0,0) on, within JTOFU_MAPINFO_SYSTEM_SIZE (XxYxZ groups of twelve nodes; as large as
 * needed); the axes X, Y, Z, A, B, C for which JTOFU_MAPINFO_SYSTEM_TORUS (1x1x1x0x1x0) has 1 are
 * rings. What Fugaku's library reads beside these, JTOFU_MAPINFO_BROKEN_NODE, COORDS, LOGICAL_X,
 * LOGICAL_Y, LOGICAL_Z, ORDER and SIZE, is refused where it is set, as its meaning is not known.
 *
 * @param mapinfo [out] The map. The caller releases it with free().
 * @param mapinfo_size [out] Its length in bytes.
 * @param num_proc [out] The number of processes in it.
 * @return JTOFU_SUCCESS: They are written.
 * @return JTOFU_ERR_INVALID_POINTER: mapinfo, mapinfo_size or num_proc is NULL.
 * @return JTOFU_ERR_INVALID_ARG: A variable has a value that it cannot have, or the values do not
 * fit together.
 * @return JTOFU_ERR_NOT_IMPLEMENTED: A variable is set whose meaning is not known.
 * @return JTOFU_ERR_OUT_OF_MEMORY: There is no memory for the map.
 * @return JTOFU_ERR_INTERNAL: None of the variables is set, and uTofu cannot say where the
 * processes of the job are.
 */
int jtofu_create_mapinfo_by_envvars(void **mapinfo, size_t *mapinfo_size, unsigned int *num_proc);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
