/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libutofu-record-mpi: in front of the MPI library, it reports what MPI calls have done to the
 * recording of the process, which libtofucom or libutofu-observe writes (record/mpi.h). Without a
 * recording each function of MPI is called as it is. One library for each MPI, from the same
 * sources; it names no MPI library that it needs, as the program brings its own.
 * Uses record/mpi.h, record/format.h and util's hash tables.
 */
#ifndef MR_H
#define MR_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "record/format.h"
#include "record/mpi.h"

#define MR_WEAK
#include "wrappers.inc"
#undef MR_WEAK
#include "weak.h"

#define MR_EXPORT __attribute__((visibility("default")))

/*
 * recorder.c
 */

enum { MR_INLINE = 16 /* requests and statuses that a call keeps on its stack */ };

/* The recording. NULL: there is none. */
extern const struct ut_record_mpi *mr_to;
/* Above 0 inside a function of MPI, which may call others. */
extern __thread int mr_depth __attribute__((tls_model("initial-exec")));
extern bool mr_begun; /* MPI is initialized, and the recording says so */

/* Is this call to be recorded? */
static inline bool mr_enter(void)
{
    return __builtin_expect(mr_begun, 0) && mr_depth == 0;
}

/*
 * state.c: begin and end
 */

/* MPI_Init has returned. */
void mr_begin(void);
/* Before MPI_Init. */
void mr_find_mpi(void);

/*
 * comms.c: communicators
 */

/* The number of a communicator, which is defined when it is new. */
int64_t mr_comm(MPI_Comm comm, uint64_t begin);
void mr_free_comm(MPI_Comm comm);

/*
 * requests.c: requests
 */

struct mr_posted {
    unsigned int kind; /* enum ut_record_mpi_kind */
    int64_t numbers[6];
    unsigned int n;
    unsigned int request_at; /* which of the numbers is that of the request */
};

/* Enters a request. Returns its number. persistent: `posted` is written by each start. */
int64_t mr_request_add(MPI_Request request, bool wildcard, const struct mr_posted *persistent);
/* The program frees a request: the message of a send goes on, the end of a receive is not seen. */
void mr_request_forget(MPI_Request request);
/* How many receives with MPI_ANY_SOURCE or MPI_ANY_TAG have not been completed. */
extern int mr_num_wildcards;
/* Requests are complete. was: the handles before the call; done: which of them, NULL: all;
 * statuses: of those that are done, or NULL. */
void mr_completed(uint64_t begin, int num, const MPI_Request was[], const int done[],
                  const MPI_Status statuses[]);

/*
 * calls.c: what has been done
 */

void mr_send(uint64_t begin, MPI_Comm comm, int dest, int tag, int64_t bytes, int synchronous);
void mr_isend(uint64_t begin, MPI_Comm comm, int dest, int tag, int64_t bytes, int synchronous,
              MPI_Request request);
void mr_recv(uint64_t begin, MPI_Comm comm, int asked, int source, int tag);
void mr_irecv(uint64_t begin, MPI_Comm comm, int source, int tag, MPI_Request request);
void mr_sendrecv(uint64_t begin, MPI_Comm comm, int dest, int sendtag, int64_t bytes, int asked,
                 int source, int tag);
void mr_isendrecv(uint64_t begin, MPI_Comm comm, int dest, int sendtag, int64_t bytes, int source,
                  int tag, MPI_Request request);
void mr_probe(uint64_t begin, MPI_Comm comm, int asked, int source, int tag);
void mr_persistent_send(uint64_t begin, MPI_Comm comm, int dest, int tag, int64_t bytes,
                        int synchronous, MPI_Request request);
void mr_persistent_recv(uint64_t begin, MPI_Comm comm, int source, int tag, MPI_Request request);
/* The requests are active now. */
void mr_started(uint64_t begin, int num, const MPI_Request requests[]);
void mr_coll(uint64_t begin, unsigned int which, MPI_Comm comm, int root, int64_t bytes,
             int64_t elements, const MPI_Request *request);
/* A persistent one: each start of the request is recorded. */
void mr_persistent_coll(uint64_t begin, unsigned int which, MPI_Comm comm, int root, int64_t bytes,
                        int64_t elements, MPI_Request request);
void mr_neighbors(uint64_t begin, MPI_Comm comm, int64_t bytes, const MPI_Request *request);
void mr_neighborsv(uint64_t begin, MPI_Comm comm, const int counts[], MPI_Datatype type);
/* comm: whose processes all make the call; MPI_COMM_NULL: those of the new one. */
void mr_new_comm(uint64_t begin, MPI_Comm comm, MPI_Comm new_comm);
void mr_opaque(uint64_t begin);

int64_t mr_bytes(int64_t count, MPI_Datatype type);
/* Of the blocks for all processes, the mean. */
int64_t mr_mean(MPI_Comm comm, const int counts[], MPI_Datatype type);
#if MPI_VERSION >= 4
int64_t mr_mean_c(MPI_Comm comm, const MPI_Count counts[], MPI_Datatype type);
#endif

#endif
