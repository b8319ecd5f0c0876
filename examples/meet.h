/* SPDX-License-Identifier: Apache-2.0 */
/* How the examples that do without MPI find each other; they are started with utofurun. */
#ifndef MEET_H
#define MEET_H

#include <stdint.h>

#include <utofu.h>

enum { MAX_PROCESSES = 64 };

/* Ends the program unless a call was successful: CALL(utofu_free_vcq(vcq)); */
#define CALL(call) check_call((call), #call)
void check_call(int rc, const char *what);

/* Rank of this process and number of processes: what utofurun says. */
int my_rank(void);
int num_processes(void);

/* Creates a VCQ on TNI 0. */
utofu_vcq_hdl_t open_vcq(void);

/* Tells the ids of all processes' VCQs, in order of rank. When it returns all processes have called
 * it: what they registered before is there. May be called again, as a barrier. */
void meet(utofu_vcq_hdl_t vcq, utofu_vcq_id_t ids[MAX_PROCESSES]);

/* Waits for all processes and frees the VCQ. */
void close_vcq(utofu_vcq_hdl_t vcq);

/* Memory for utofu_reg_mem_with_stag(): aligned, and a multiple of the alignment. */
void *aligned_memory(size_t size);

/* Waits for the next MRQ notice. */
struct utofu_mrq_notice wait_notice(utofu_vcq_hdl_t vcq);

#endif
