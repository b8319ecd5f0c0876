/* SPDX-License-Identifier: Apache-2.0 */
/**
 * acp.h - the ACP basic layer on uTofu: global addresses, copies and atomic operations
 *
 * Every byte of registered memory has a global address (GA), which names it in the whole job.
 * Copies and atomic operations (GMAs, global memory accesses) are given GAs, return a handle at
 * once, and are complete when acp_complete() or acp_inquire() says so. The process that starts one
 * need own neither of its two GAs.
 *
 * Functions report errors by -1, a null key, a null GA, a null pointer or a null handle, and write
 * a line to standard error that says why. What only the process of a GA can know is found later:
 * then there is such a line, and the GMA counts as complete without having written anything.
 *
 * Each function is described in one comment, of which scripts/make-man makes its manual page:
 * purpose, text, parameters, result. acp_init(), acp_finalize(), acp_reset() and acp_sync() are
 * collective: every process calls them, in one of its threads. All others may be called by any
 * number of threads at once, between acp_init() and acp_finalize().
 */
#ifndef ACP_H
#define ACP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * Types and constants
 */

typedef uint64_t acp_atkey_t; /* registered memory of this process */
typedef uint64_t acp_ga_t;    /* one byte in the memory of some process; offsets may be added */
typedef int64_t acp_handle_t; /* a GMA; they rise from 1 in the order in which GMAs are issued */

#define ACP_ATKEY_NULL 0ULL
#define ACP_GA_NULL    0ULL

#define ACP_HANDLE_NULL 0ULL
#define ACP_HANDLE_ALL  0xffffffffffffffffULL /* everything that was issued so far */
#define ACP_HANDLE_CONT 0xfffffffffffffffeULL /* as an order: behind the GMA issued before */

/*
 * The job
 */

/**
 * acp_init - join the job
 *
 * Collective. Rank and number of processes are those of the launcher: mpirun, mpiexec, srun or
 * utofurun. The layer's options, --acp-NAME VALUE, are removed from the arguments; one that is
 * unknown or wrong prints the list of them and ends the process with status 1. May be called again
 * after acp_finalize().
 *
 * @param argc [in,out] The number of arguments, or NULL.
 * @param argv [in,out] The arguments, or NULL.
 * @return 0: The process is part of the job.
 * @return -1: It is not: it was before, uTofu has no TNI, memory is missing, or the processes did
 * not all come.
 */
int acp_init(int *argc, char ***argv);

/**
 * acp_finalize - leave the job
 *
 * Collective. Completes what this process has issued, waits for all processes, and releases
 * everything. All keys, GAs and handles are void then.
 *
 * @return 0: Everything is released.
 * @return -1: acp_init() was not called.
 */
int acp_finalize(void);

/**
 * acp_reset - begin anew, with another rank
 *
 * Collective; as acp_finalize() and acp_init() in one. The new ranks of all processes are a
 * permutation of the old ones. All keys, GAs and handles are void and the starter memory is zero
 * afterwards; its size is what iacpbl_option.szsmem.value says then, the same in all processes.
 *
 * @param rank [in] The new rank of this process.
 * @return 0: The process has the new rank.
 * @return -1: The new ranks are no permutation, or the sizes differ. All processes get this, and
 * nothing has changed.
 */
int acp_reset(int rank);

/**
 * acp_abort - end the job
 *
 * Prints the message and ends all processes of the job with status 1. Does not return.
 *
 * @param msg [in] The message, or NULL.
 * @return none: The function does not return.
 */
void acp_abort(const char *msg);

/**
 * acp_sync - wait for all processes
 *
 * Collective. Completes what this process has issued, and returns when all processes have called
 * it.
 *
 * @return 0: All have come.
 * @return -1: acp_init() was not called.
 */
int acp_sync(void);

/**
 * acp_rank - get the rank of this process
 *
 * @return 0 or more: The rank.
 * @return -1: acp_init() was not called.
 */
int acp_rank(void);

/**
 * acp_procs - get the number of processes
 *
 * @return 1 or more: The number.
 * @return -1: acp_init() was not called.
 */
int acp_procs(void);

/*
 * Global memory
 */

/**
 * acp_query_starter_ga - get the GA of the starter memory of a process
 *
 * Starter memory is registered from the start, all zero, aligned to a page and of the same size in
 * all processes: 10,240 bytes, or what --acp-size-smem says. Nothing is sent. Its color is 0.
 *
 * @param rank [in] Any rank of the job.
 * @return not 0: The GA of its first byte.
 * @return ACP_GA_NULL: There is no such rank.
 */
acp_ga_t acp_query_starter_ga(int rank);

/**
 * acp_register_memory - register memory of this process
 *
 * Makes the memory reachable by GAs. It stays registered, and must stay mapped, until it has been
 * unregistered as often as it was registered. Memory that lies inside a region that is registered
 * with the same color, begins where it ends, or crosses its end may become part of that region: it
 * gets the key of the region, which counts its registrations, and all of the region stays
 * registered until the last of them is ended.
 *
 * @param addr  [in] The start of the memory; any alignment.
 * @param size  [in] Its size in bytes; 1 or more.
 * @param color [in] The TNI that serves it: 0 to acp_colors() - 1.
 * @return not 0: The key, for acp_query_ga() and acp_unregister_memory().
 * @return ACP_ATKEY_NULL: There is no such color, the memory cannot be registered, or there are too
 *     many regions.
 */
acp_atkey_t acp_register_memory(void *addr, size_t size, int color);

/**
 * acp_unregister_memory - end one registration
 *
 * @param key [in] The key that acp_register_memory() gave.
 * @return 0: It is ended; after the last one of a key the GAs of the region are void.
 * @return -1: The key is not registered, of another process, or that of starter memory.
 */
int acp_unregister_memory(acp_atkey_t key);

/**
 * acp_query_ga - get the GA of an address
 *
 * @param key  [in] The key of the region, from acp_register_memory() in this process.
 * @param addr [in] An address in the region, or one past its end.
 * @return not 0: The GA; other processes may use it.
 * @return ACP_GA_NULL: The key is not one of this process, or the address is outside the region.
 */
acp_ga_t acp_query_ga(acp_atkey_t key, void *addr);

/**
 * acp_query_address - get the address of a GA
 *
 * @param ga [in] Any GA.
 * @return not NULL: The address in this process.
 * @return NULL: The GA is of another process, or void.
 */
void *acp_query_address(acp_ga_t ga);

/**
 * acp_query_rank - get the process of a GA
 *
 * @param ga [in] Any GA.
 * @return 0 or more: Its rank.
 * @return -1: This is no GA.
 */
int acp_query_rank(acp_ga_t ga);

/**
 * acp_query_color - get the color of a GA
 *
 * @param ga [in] Any GA.
 * @return 0 or more: The color that its memory was registered with.
 * @return -1: This is no GA.
 */
int acp_query_color(acp_ga_t ga);

/**
 * acp_colors - get the number of colors
 *
 * @return 1 or more: How many there are: the TNIs of the process.
 * @return -1: acp_init() was not called.
 */
int acp_colors(void);

/*
 * Copies and atomic operations
 */

/**
 * acp_copy - copy between the memory of any two processes
 *
 * Returns at once. Both processes may be others than this one, which need not call anything.
 * Source and destination may overlap, as with memmove(). Where the queue of 4,096 GMAs is full, the
 * call waits until there is room.
 *
 * @param dst   [in] The GA to copy to.
 * @param src   [in] The GA to copy from.
 * @param size  [in] The size in bytes; any. 0 copies nothing.
 * @param order [in] When it starts. ACP_HANDLE_NULL: at once. A handle: when that GMA and all
 * issued before it are complete. ACP_HANDLE_ALL: when all that were issued before are.
 * ACP_HANDLE_CONT: behind the GMA issued before; as ACP_HANDLE_ALL, but puts of this process to one
 * region may be on their way together, in order. It starts by itself, whatever the program does
 * meanwhile.
 * @return not 0: The handle.
 * @return ACP_HANDLE_NULL: A GA is none of the job, or outside memory of this process or starter
 *     memory; or order was never issued. Nothing is copied.
 */
acp_handle_t acp_copy(acp_ga_t dst, acp_ga_t src, size_t size, acp_handle_t order);

/**
 * acp_cas4, acp_cas8 - compare and swap a word of any process
 *
 * If the word at src equals oldval, newval is stored there, in one step that no other atomic
 * operation on the word comes between. What the word was before is written to dst in any case.
 * Returns at once, as acp_copy(). Neither word need be one of this process.
 *
 * @param dst    [in] The GA that gets the value from before; a multiple of the size of the word.
 * @param src    [in] The GA of the word; a multiple of its size.
 * @param oldval [in] The value to compare with.
 * @param newval [in] The value to store.
 * @param order  [in] When it starts, as in acp_copy().
 * @return not 0: The handle.
 * @return ACP_HANDLE_NULL: As acp_copy(), or a GA is not aligned. Nothing is changed.
 */
acp_handle_t acp_cas4(acp_ga_t dst, acp_ga_t src, uint32_t oldval, uint32_t newval,
                      acp_handle_t order);
acp_handle_t acp_cas8(acp_ga_t dst, acp_ga_t src, uint64_t oldval, uint64_t newval,
                      acp_handle_t order);

/**
 * acp_swap4, acp_swap8, acp_add4, acp_add8, acp_xor4, acp_xor8, acp_or4, acp_or8, acp_and4,
 * acp_and8 - change a word of any process atomically
 *
 * The word at src is replaced by value (swap), or by its sum (add, as unsigned integers), exclusive
 * or, or, or conjunction (and) with value, in one step that no other atomic operation on the word
 * comes between. What it was before is written to dst. Returns at once, as acp_copy(). Neither word
 * need be one of this process.
 *
 * @param dst   [in] The GA that gets the value from before; a multiple of the size of the word.
 * @param src   [in] The GA of the word; a multiple of its size.
 * @param value [in] The operand.
 * @param order [in] When it starts, as in acp_copy().
 * @return not 0: The handle.
 * @return ACP_HANDLE_NULL: As acp_copy(), or a GA is not aligned. Nothing is changed.
 */
acp_handle_t acp_swap4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_swap8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
acp_handle_t acp_add4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_add8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
acp_handle_t acp_xor4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_xor8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
acp_handle_t acp_or4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_or8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);
acp_handle_t acp_and4(acp_ga_t dst, acp_ga_t src, uint32_t value, acp_handle_t order);
acp_handle_t acp_and8(acp_ga_t dst, acp_ga_t src, uint64_t value, acp_handle_t order);

/**
 * acp_complete - wait for a GMA
 *
 * Returns when the GMA and all issued before it are complete: what they read has been read, and
 * what they wrote is there. For the null handle, one that is complete and one that was never
 * issued: at once.
 *
 * @param handle [in] The handle, or ACP_HANDLE_ALL: all that were issued so far.
 * @return none: The function has no result.
 */
void acp_complete(acp_handle_t handle);

/**
 * acp_inquire - ask whether a GMA is complete
 *
 * @param handle [in] The handle, or ACP_HANDLE_ALL: all that were issued so far.
 * @return 0: The GMA and all issued before it are complete, or it was never issued.
 * @return 1: Not yet.
 */
int acp_inquire(acp_handle_t handle);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
