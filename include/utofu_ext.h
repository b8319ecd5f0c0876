/* SPDX-License-Identifier: Apache-2.0 */
/**
 * utofu_ext.h - functions that this library has and Fugaku's does not.
 *
 * A program that must also compile on Fugaku tests for the header:
 *
 *     #if __has_include(<utofu_ext.h>)
 *     #include <utofu_ext.h>
 *     #else
 *     #define utofu_profile_start(name) ((void)0)
 *     #define utofu_profile_stop(name) ((void)0)
 *     #define utofu_profile_seen(stadd, length) ((void)0)
 *     #endif
 *
 * The comments have the form that utofu.h describes. With UTOFU_WARN_UNUSED (utofu.h) compilers
 * warn of ignored codes here, too, but not of those of regions, which do not affect the program,
 * nor of utofu_wait_vcqs(), as the polls after it find the entries.
 */
#ifndef UTOFU_EXT_H
#define UTOFU_EXT_H

#include <stddef.h>
#include <stdint.h>

#include <utofu.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define UTOFU_PROFILE_NAME_MAX 63 /* bytes of the name of a region */

/*
 * Regions of a program.
 */

/**
 * utofu_profile_start - begin a region of the program
 *
 * With UTOFU_STATS, communication while at least one thread of the process is in the region is also
 * counted for the region, with the total time and the number of calls; with UTOFU_TRACE, each stay
 * of a thread in the region is a slice of the timeline. Without them only the name is checked.
 * Regions may nest and overlap, a thread may be in one several times, and any thread may start any
 * region.
 *
 * Regions may be used before the first call of another function of this library: a region does not
 * look for the job, and nothing is printed by a process that calls no other function. A region that
 * is open at the end of the process counts until then, with a warning.
 *
 * @param name [in] Name of the region: 1 to 63 bytes, no control characters, '"' or '\'. Regions of
 *        the same name are one region. It is copied.
 * @return UTOFU_SUCCESS: The thread is in the region, or nothing is counted.
 * @return UTOFU_ERR_INVALID_POINTER: name is NULL.
 * @return UTOFU_ERR_INVALID_ARG: name is empty, too long, or has a byte that is not allowed.
 * @return UTOFU_ERR_FULL: This thread is in 64 regions already, or the process has 1000 of them.
 * @return UTOFU_ERR_OUT_OF_MEMORY: There is no memory for another region or thread.
 * @return UTOFU_ERR_NOT_AVAILABLE: This is a child made by fork() after the first call.
 * @threads any
 * @manual none (utofu_ext.h)
 */
int utofu_profile_start(const char *name);

/**
 * utofu_profile_stop - end a region of the program
 *
 * Ends the last utofu_profile_start() of this thread with this name, in any order with those of
 * other names.
 *
 * @param name [in] The name that was given to utofu_profile_start().
 * @return UTOFU_SUCCESS: The thread has left the region, or nothing is counted.
 * @return UTOFU_ERR_INVALID_POINTER: name is NULL.
 * @return UTOFU_ERR_INVALID_ARG: name is empty, too long, or has a byte that is not allowed.
 * @return UTOFU_ERR_NOT_FOUND: This thread is not in that region.
 * @return UTOFU_ERR_NOT_AVAILABLE: This is a child made by fork() after the first call.
 * @threads any
 * @manual none (utofu_ext.h)
 */
int utofu_profile_stop(const char *name);

/**
 * utofu_profile_seen - tell that memory has changed
 *
 * For programs that wait for a put by reading memory, which the library does not notice. With
 * UTOFU_TRACE=FILE,record=1 the recording has the call, and utofu-model lets it wait for the puts
 * to these bytes; without the call, it concludes from repetitions and times which call of the
 * program waits for a put. Otherwise only the length is checked.
 *
 * @param stadd [in] STADD of the first byte that has changed, of memory of this process.
 * @param length [in] The number of bytes.
 * @return UTOFU_SUCCESS: It is recorded, or nothing is recorded.
 * @return UTOFU_ERR_INVALID_SIZE: length is 0.
 * @threads any
 * @manual none (utofu_ext.h)
 */
int utofu_profile_seen(utofu_stadd_t stadd, size_t length);

/*
 * Waiting.
 */

/**
 * utofu_wait_vcqs - sleep until a VCQ has something to poll
 *
 * Returns once the TCQ or the MRQ of one of the VCQs has an entry for utofu_poll_tcq() or
 * utofu_poll_mrq(), including errors; at once if there is one already. Then the caller polls all of
 * the VCQs, until all queues are empty. While the thread sleeps it uses no CPU, and the library
 * continues the communications of the VCQs, sets up connections and detects processes that end.
 * Waking it takes longer than polling: a program that expects an answer soon polls for some
 * microseconds first.
 *
 * Changes of memory without a notice, for instance by a put without
 * UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE, and the end of a barrier do not end the wait. The wait may
 * also end without an entry, for instance because another thread has polled it.
 *
 * Several threads may wait for the same VCQ: all of them return. Other threads may use the VCQs
 * meanwhile, with UTOFU_VCQ_FLAG_THREAD_SAFE; their communications take a longer path while a
 * thread waits for the VCQ, and an entry written in their calls ends the wait, too.
 *
 * @param vcq_hdls [in] Handles of the VCQs, an array.
 * @param num_vcqs [in] The number of VCQs: 1 to 4096.
 * @param timeout_us [in] The maximum wait in microseconds. 0: only check. Negative: no limit.
 * @return UTOFU_SUCCESS: There is something to poll, or utofu_wake_vcq() has ended the wait.
 * @return UTOFU_ERR_NOT_FOUND: There was no entry in that time.
 * @return UTOFU_ERR_INVALID_POINTER: vcq_hdls is NULL.
 * @return UTOFU_ERR_INVALID_NUMBER: num_vcqs is 0 or too large.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: One of them is no VCQ of this process, or was freed meanwhile.
 * @return UTOFU_ERR_OUT_OF_MEMORY: There is no memory to wait for this number of VCQs.
 * @return UTOFU_ERR_OUT_OF_RESOURCE: There is no file descriptor left to sleep on.
 * @threads any
 * @manual none (utofu_ext.h)
 */
int utofu_wait_vcqs(const utofu_vcq_hdl_t vcq_hdls[], size_t num_vcqs, int64_t timeout_us);

/**
 * utofu_wake_vcq - end the waits for a VCQ
 *
 * Each utofu_wait_vcqs() that waits for the VCQ returns. If there is none, the next one returns at
 * once, so that a thread which is just about to wait does not miss it; calls in a row count as one.
 * It takes a lock: not for signal handlers.
 *
 * @param vcq_hdl [in] Handle of the VCQ.
 * @return UTOFU_SUCCESS: The waits have ended, or the next one will.
 * @return UTOFU_ERR_INVALID_VCQ_HDL: It is no VCQ of this process.
 * @threads any
 * @manual none (utofu_ext.h)
 */
int utofu_wake_vcq(utofu_vcq_hdl_t vcq_hdl) UTOFU_MUST_USE;

/*
 * The job, and the places of its processes.
 */

/**
 * struct utofu_job - this process in its job
 *
 * Processes with the same node number are on one node; local ranks count them in order of rank.
 * The node and the local numbers are the launcher's, or those of UTOFU_NODE, UTOFU_LOCAL_RANK and
 * UTOFU_LOCAL_SIZE.
 * @manual none (utofu_ext.h)
 */
struct utofu_job {
    uint32_t rank;           /* of this process; in MPI programs, in MPI_COMM_WORLD */
    uint32_t size;           /* number of processes of the job */
    uint32_t node;           /* number of this process's node, from 0 on */
    uint32_t num_nodes;      /* number of nodes; 0: the launcher does not tell */
    uint32_t local_rank;     /* of this process on its node */
    uint32_t local_size;     /* number of processes of this node */
    uint32_t max_local_size; /* the largest number of processes on a node; where the launcher does
                              * not tell the nodes of all processes, local_size */
};

/**
 * utofu_query_job - get rank and size of the job, and the place of this process
 *
 * Nothing is sent. Takes a pass over the nodes of the job, for max_local_size.
 *
 * @param job [out] This process in its job.
 * @return UTOFU_SUCCESS: *job is written.
 * @return UTOFU_ERR_INVALID_POINTER: job is NULL.
 * @threads any
 * @manual none (utofu_ext.h)
 */
int utofu_query_job(struct utofu_job *job) UTOFU_MUST_USE;

/**
 * utofu_query_rank_node - get the node that a process of the job is on
 *
 * The node is the one that the process has published in its first call, or, before that, the one in
 * the launcher's layout. If the layout does not tell, the function waits for the process, up to
 * UTOFU_JOB_TIMEOUT seconds. The coordinates are those of utofu_query_my_coords() in that process.
 *
 * @param rank [in] Rank in the job, 0 to its size less one. In MPI programs, of MPI_COMM_WORLD.
 * @param node [out] Number of the node, from 0 on.
 * @param coords [out] Its coordinates X, Y, Z, A, B, C: an array of six elements.
 * @return UTOFU_SUCCESS: They are written.
 * @return UTOFU_ERR_INVALID_POINTER: node or coords is NULL.
 * @return UTOFU_ERR_INVALID_NUMBER: The job has no such rank.
 * @return UTOFU_ERR_NOT_AVAILABLE: The process has not come in time, or the launcher is gone.
 * @threads any
 * @manual none (utofu_ext.h)
 */
int utofu_query_rank_node(uint32_t rank, uint32_t *node, uint8_t coords[]) UTOFU_MUST_USE;

/**
 * utofu_compat_job - utofu_query_job() for libraries that Fugaku has, too
 *
 * The check mode does not count its calls among those of functions that Fugaku lacks.
 *
 * @param job [out] As of utofu_query_job().
 * @return UTOFU_SUCCESS: *job is written.
 * @return UTOFU_ERR_INVALID_POINTER: job is NULL.
 * @threads any
 * @manual none (utofu_ext.h)
 */
int utofu_compat_job(struct utofu_job *job) UTOFU_MUST_USE;

/**
 * utofu_compat_rank_node - utofu_query_rank_node() for libraries that Fugaku has, too
 *
 * Called by FJMPI_Topology_get_coords() and similar functions of Fugaku's MPI, and by jtofu. The
 * check mode does not count its calls among those of functions that Fugaku lacks.
 *
 * @param rank [in] As of utofu_query_rank_node().
 * @param node [out] The same.
 * @param coords [out] The same: an array of six elements.
 * @return UTOFU_SUCCESS: They are written.
 * @return UTOFU_ERR_INVALID_POINTER: node or coords is NULL.
 * @return UTOFU_ERR_INVALID_NUMBER: The job has no such rank.
 * @return UTOFU_ERR_NOT_AVAILABLE: The process has not come in time, or the launcher is gone.
 * @threads any
 * @manual none (utofu_ext.h)
 */
int utofu_compat_rank_node(uint32_t rank, uint32_t *node, uint8_t coords[]) UTOFU_MUST_USE;

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
