/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a recording (UTOFU_TRACE=FILE,record), which utofu-model replays: the calls of each
 * thread of a process, in order. Shared by the writers (the library, and tools/observe) and the
 * readers. A file begins with UT_RECORD_MAGIC; blocks follow. A block has a type (1 byte), the size
 * of its content and its checksum (ut_record_checksum; both 4 bytes, little endian), and the
 * content. The blocks are one HEAD, any number of MODULES, MOMENT and CALLS, one END. A file
 * without an END was cut, or its process was killed: the file is whole up to its last block. Times
 * are in ticks: ns of CLOCK_MONOTONIC, or the processor's counter divided by
 * 2^UT_RECORD_COUNTER_SHIFT, which is equal on all processors of a host. HEAD, MOMENT and END each
 * have a moment in both units. Numbers are LEB128 (7 bits per byte, least significant first) unless
 * a size is given. "Signed" numbers are zigzag-coded first.
 *   HEAD    version, rank, size, length of the job's name, name; 8 bytes: host; 6 bytes:
 *           coordinates of the node; signed: CLOCK_REALTIME minus CLOCK_MONOTONIC in ns;
 *           1: ticks of the counter, 0: ns; 8 bytes each: a moment in ticks, and in ns; flags
 *   MODULES of each module (the program and its libraries): 8 bytes each: where it is in memory,
 *           begin and end, and its bias (what is added to the addresses in its file); length of
 *           its build id, build id; length of its path, path. A later block replaces it
 *   MOMENT  8 bytes each: a later moment in ticks, and in ns
 *   CALLS   number of the thread, its base time (8 bytes); records
 *   END     number of records in all blocks; 8 bytes each: a later moment in ticks, and in ns;
 *           flags, as of the end
 * A record is an operation (1 byte), and its numbers. The operations below UT_RECORD_TIMED define
 * ids that later records of the thread use. All others begin with two times: the time of the call
 * since the previous call (in the first record of a block: since the base time), and the CPU time
 * of the program between the two calls, without the time of empty polls.
 */
#ifndef UT_RECORD_FORMAT_H
#define UT_RECORD_FORMAT_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "util/hash.h"

#define UT_RECORD_MAGIC "UTOFUREC"

enum {
    UT_RECORD_MAGIC_SIZE = 8,
    UT_RECORD_VERSION = 6,
    /* that readers know, too: 4 lacks the flags of HEAD and END, and MPI; 5 lacks MODULES, SITE, AT
     */
    UT_RECORD_OLDEST = 4,
    UT_RECORD_BLOCK_HEAD = 9, /* bytes of type, size and checksum */
    UT_RECORD_NO_PATH = 255,
    UT_RECORD_COUNTER_SHIFT = 2,
};

enum ut_record_block {
    UT_RECORD_HEAD = 'H',
    UT_RECORD_MODULES = 'L',
    UT_RECORD_MOMENT = 'M',
    UT_RECORD_CALLS = 'C',
    UT_RECORD_END = 'E'
};

enum ut_record_op {
    /* index of the id in this thread, from 0 on without gaps; 8 bytes: the id; 6 bytes: coordinates
     * of its node; TNI, CQ, component; 3 bytes: the default path A, B, C; VCQ flags plus 1 for a
     * VCQ of this process, 0 for one of another process */
    UT_RECORD_VCQ = 1,
    /* as above: index, id, coordinates, TNI; number of the gate (0 to 15: start) */
    UT_RECORD_GATE = 2,
    /* a session-mode VCQ, 8 bytes: the time in ns. The next communication of that VCQ was started.
     * Recorded by the thread that started it, which may belong to the library */
    UT_RECORD_STARTED = 3,
    /* number of return addresses; 8 bytes each: these, from the call of the library outwards. A
     * site in the program, whose index is the next one, from 1 on (0: unknown): the thread's next
     * timed record is of a call there. Without SITE or AT before it, a record is of the site that
     * the last time followed the site of the record before (at first: of site 0) */
    UT_RECORD_SITE = 4,
    UT_RECORD_AT = 5, /* index of a site: the next timed record is of a call there */

    UT_RECORD_TIMED = 8,
    /* VCQ, remote VCQ, length, flags (16 bits), SPS + 16 * path id, 3 bytes: the path (255: the
     * default of the remote VCQ id), if the path id is not 0; edata, MTU (0: the largest) and, if
     * it is not 0, gap; signed: remote STADD minus that of the thread's last record with one */
    UT_RECORD_PUT = UT_RECORD_TIMED,
    UT_RECORD_GET,
    UT_RECORD_ARMW,
    UT_RECORD_NOP,    /* the same; only the VCQ and the flags matter */
    UT_RECORD_TCQ,    /* VCQ, minus the return code: utofu_poll_tcq() has returned an entry */
    UT_RECORD_MRQ,    /* VCQ, minus the return code, type, remote VCQ, edata */
    UT_RECORD_FREE,   /* VCQ */
    UT_RECORD_SET,    /* gate, its source gates (signal, packet) and destination gates, each
                       * index + 1 or 0; 3 bytes: the path, or 255 */
    UT_RECORD_START,  /* gate, operation: barrier or reduction */
    UT_RECORD_RESULT, /* gate, minus the return code */
    UT_RECORD_ENTER,  /* length of the region's name, name */
    UT_RECORD_LEAVE,  /* the same */
    UT_RECORD_SEEN,   /* STADD, length: utofu_profile_seen() */
    UT_RECORD_MPI,    /* 1 byte: enum ut_record_mpi_kind; how long before it the first poll of its
                       * wait was, or 0; how many numbers follow; these, all signed */
    UT_RECORD_OPS,
};

/* Added to the operation. SAME_CALL: another communication of the same call. AGAIN: the same values
 * as in the thread's last record of a communication, TCQ entry or notice; only the remote STADD of
 * a communication, or the edata of a notice, follows. */
enum { UT_RECORD_SAME_CALL = 0x80, UT_RECORD_AGAIN = 0x40 };
/* Added to TCQ and MRQ: since its last record the thread has polled a TCQ or an MRQ without
 * success. The last number of the record is the time since the first of these polls. */
enum { UT_RECORD_POLLED = 0x80 };

/* Flags of HEAD and END. */
enum { UT_RECORD_HAS_MPI = 1 /* MPI_Init was called */ };

/*
 * Calls of MPI. Communicators have indices in the process, from 0 on in the order in which they
 * were made: those of the same processes in the same order are the same communicator if their
 * numbers among such ones are the same, in all of its processes. Ranks are those in the
 * communicator. A request has a number from 0 on, a persistent one keeps it. -1: none, or
 * MPI_ANY_SOURCE and MPI_ANY_TAG.
 */
enum ut_record_mpi_kind {
    UT_RECORD_MPI_BEGIN,  /* rank and size of MPI_COMM_WORLD */
    UT_RECORD_MPI_COMM,   /* communicator, size, then runs of ranks in MPI_COMM_WORLD: first one,
                           * distance, number. More runs may follow, of the same call. Size 0: it
                           * has processes of another world, or two groups */
    UT_RECORD_MPI_SEND,   /* communicator, target, tag, bytes, request, 1: synchronous mode */
    UT_RECORD_MPI_RECV,   /* communicator, source, tag, request */
    UT_RECORD_MPI_WAIT,   /* of each request that is complete: its number; source and tag of what it
                           * has received, or -1; 1: it was cancelled */
    UT_RECORD_MPI_PROBE,  /* communicator, source, tag */
    UT_RECORD_MPI_COLL,   /* enum ut_record_mpi_coll, communicator, root, bytes, elements, request.
                           * Bytes: of a block from one process to one other, or of the result */
    UT_RECORD_MPI_OPAQUE, /* 1: one-sided */
    UT_RECORD_MPI_KINDS
};

enum ut_record_mpi_coll {
    UT_RECORD_MPI_BARRIER,
    UT_RECORD_MPI_BCAST,
    UT_RECORD_MPI_REDUCE,
    UT_RECORD_MPI_ALLREDUCE,
    UT_RECORD_MPI_GATHER,
    UT_RECORD_MPI_SCATTER,
    UT_RECORD_MPI_ALLGATHER,
    UT_RECORD_MPI_ALLTOALL,
    UT_RECORD_MPI_REDUCE_SCATTER,
    UT_RECORD_MPI_SCAN,
    UT_RECORD_MPI_EXSCAN,
    UT_RECORD_MPI_NEW_COMM,
    UT_RECORD_MPI_GATHERV,
    UT_RECORD_MPI_COLLS
};

static inline uint32_t ut_record_checksum(const void *content, size_t size)
{
    const uint8_t *bytes = content;
    uint64_t hash = ut_hash_word(UT_HASH_FIRST, size), word;

    for (; size >= sizeof(word); size -= sizeof(word), bytes += sizeof(word)) {
        memcpy(&word, bytes, sizeof(word));
        hash = ut_hash_word(hash, le64toh(word));
    }
    word = 0;
    memcpy(&word, bytes, size);
    return (uint32_t)(ut_hash_word(hash, le64toh(word)) >> 32);
}

#endif
