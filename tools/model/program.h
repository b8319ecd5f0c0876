/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorded job: its processes, their threads, and what each thread called in order. Filled in by
 * recording.c; match.c adds what waits for what. Indices are 32 bits wide; UM_NONE is none.
 */
#ifndef UM_PROGRAM_H
#define UM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UM_NONE = UINT32_MAX, UM_DEFAULT_PATH = 255 };

enum um_kind { UM_PUT, UM_GET, UM_ARMW, UM_NOP };

struct um_comm {
    uint64_t stadd, begin; /* begin: when it was called, ns, the recording's clock */
    uint32_t length;
    uint32_t vcq, remote; /* remote: UM_NONE of a NOP */
    uint32_t process;
    uint32_t op; /* in the thread that called it */
    uint32_t thread;
    uint16_t flags, mtu, gap;
    uint8_t kind, edata, sps;
    uint8_t path[3];  /* UM_DEFAULT_PATH: of the remote VCQ id */
    bool same_call;   /* a further one of the same call */
    uint32_t next[3]; /* match.c: the next one with the same TCQ, local or remote notice */
};

enum um_op_kind {
    UM_OP_COMM, /* which: comm */
    UM_OP_TCQ,  /* which: the comm whose entry it is (match.c) */
    UM_OP_MRQ,  /* the same; `notice`: the type; far: the remote VCQ */
    UM_OP_FREE,
    UM_OP_START,  /* which: gate */
    UM_OP_RESULT, /* which: gate */
    UM_OP_ENTER,  /* which: region */
    UM_OP_LEAVE,  /* which: region */
    UM_OP_SEEN,   /* stadd, length */
    UM_OP_MPI,    /* which: call of um_program.mpi */
};

struct um_op {
    uint8_t kind, notice, edata;
    bool has_notice; /* MRQ and TCQ: matched */
    uint32_t vcq;    /* UM_NONE: of no VCQ */
    uint32_t which, far;
    uint32_t seen; /* head of the list of puts that must have landed before: um_seen */
    uint64_t begin;
    uint64_t first;         /* of the first poll of the wait that this one ends; or begin */
    uint64_t compute;       /* ns of CPU time before */
    uint64_t stadd, length; /* SEEN */
    uint32_t site;          /* where it was called: um_program.sites; 0: unknown */
};

enum { UM_FRAMES = 8 };

/* Where a process made a call: return addresses, from the call of the library outwards. */
struct um_site {
    uint32_t process, num;
    uint64_t frames[UM_FRAMES];
};

/* The program or a library of a process. */
struct um_module {
    uint64_t begin, end, bias; /* bias: what is added to the addresses in the file */
    uint8_t build_id[64];
    uint32_t build_id_size; /* 0: it has none */
    char *path;
};

/* How it is known that an operation waits for something: the program says so
 * (utofu_profile_seen), by a notice, TCQ entry or barrier, or concluded from repetitions. */
enum um_basis { UM_TOLD, UM_NOTICED, UM_CONCLUDED, UM_BASES };

/* A put that an operation waits for, by reading memory, or by the notice of an earlier poll
 * (UM_NOTICED). */
struct um_seen {
    uint32_t comm, next;
    uint8_t basis;
    bool early; /* moved behind the beginning of a region: looking at it takes no time there */
};

struct um_thread {
    uint32_t process, number;
    struct um_op *ops;
    size_t num_ops, room;
};

struct um_vcq {
    uint64_t key;     /* coordinates, TNI, CQ, component */
    uint32_t process; /* the owner; UM_NONE: not yet known */
    uint32_t thread;  /* that calls it most: match.c */
    uint8_t coords[6];
    uint16_t tni, cq, cmp;
    bool session;
};

struct um_gate {
    uint64_t id;
    uint32_t process;
    uint8_t coords[6];
    uint16_t tni, number;
    /* settings, in the order of the record: gate indices or UM_NONE */
    uint32_t src[2], dst[2];
    uint8_t path[3];
    bool set;
};

/* When a session-mode VCQ started its next communication. */
struct um_started {
    uint32_t vcq;
    uint64_t at;
};

/* The same moment in ticks of a recording, and in ns. */
struct um_moment {
    uint64_t ticks, ns;
};

struct um_process {
    const char *file;
    uint64_t host;
    bool by_counter; /* times of the recording are ticks of the processor's counter */
    struct um_moment first, last;
    int64_t to_realtime;
    uint8_t coords[6];
    bool present, has_mpi; /* has_mpi: MPI_Init was called */
    struct um_module *modules;
    size_t num_modules, room_modules;
};

struct um_mpi;

struct um_program {
    char job[256];
    uint32_t size; /* of the job */
    struct um_process *processes;
    struct um_thread *threads;
    size_t num_threads, room_threads;
    struct um_comm *comms;
    size_t num_comms, room_comms;
    struct um_vcq *vcqs;
    size_t num_vcqs, room_vcqs;
    struct um_gate *gates;
    size_t num_gates, room_gates;
    struct um_seen *seen;
    size_t num_seen, room_seen;
    struct um_started *started;
    size_t num_started, room_started;
    struct um_site *sites; /* the first one is unknown */
    size_t num_sites, room_sites;
    char (*regions)[64];
    size_t num_regions, room_regions;
    struct um_mpi *mpi; /* model/mpi.h; NULL: no call of MPI is recorded */
    uint64_t failed;    /* polls that returned an error */
    bool partial;       /* --partial: recordings may end before the program */
    uint32_t num_cut;   /* processes whose recording does */
};

#endif
