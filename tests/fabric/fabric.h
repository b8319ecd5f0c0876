/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libfabric wrapped around libfabric, for tests: it acts as a fabric with fewer guarantees than
 * TCP, checks that its users follow the requirements of its modes, and uses the freedoms of its
 * guarantees.
 *
 *   profile.c    its properties, by name; faults; random numbers
 *   info.c       fi_getinfo() and related functions
 *   objects.c    fabrics, domains, completion queues and memory regions
 *   transfer.c   endpoints: posting, delaying, and completing operations
 *
 * Objects that need no change (address vectors, wait sets) are libfabric's own. A violation ends
 * the program: one line on standard error, and SIGABRT.
 *
 * Locks: one per domain, which protects all objects of the domain.
 */
#ifndef UT_FABRIC_H
#define UT_FABRIC_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counts.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * Profiles
 */

struct profile {
    const char *name, *text;  /* text: for --help */
    const char *calls_itself; /* instead of the provider's name; such a fabric has no descriptor to
                               * sleep on */
    uint64_t mr_mode;         /* FI_MR_... */
    uint64_t lacks;           /* missing capabilities: FI_RMA... */
    size_t inject, message;   /* maximum bytes; SIZE_MAX: the real one's */
    size_t depth;             /* receives and sends of an endpoint; 0: the real one's */
    size_t key_size;          /* bytes of a key */
    unsigned int late;        /* maximum number of polls for which an operation is delayed; 0: none
                               * is */
    unsigned int busy;        /* one call in this number gets -FI_EAGAIN; 0: none */
    bool unordered;           /* no FI_ORDER_SAW */
    bool shuffles;            /* completions: FI_ORDER_NONE */
    bool has_context;         /* mode FI_CONTEXT2 */
    bool never_delivers;      /* FI_DELIVERY_COMPLETE is refused */
};

enum fault { FAULT_LOSE, FAULT_FAIL, FAULT_REFUSE_MR, NUM_FAULTS };

extern const struct profile fabric_profiles[];
extern const char *const fabric_fault_texts[NUM_FAULTS]; /* "name=N  what" */

/* NULL: unknown name. */
const struct profile *fabric_profile_of(const char *name);
/* The fault in "name=N"; NUM_FAULTS: invalid. */
enum fault fabric_fault_of(const char *text, unsigned long *n);

/* The settings of this process, from its environment: read once. */
const struct profile *fabric_profile(void);
unsigned long fabric_fault(enum fault fault); /* 0: none */
uint64_t fabric_seed(void);

/* Prints the violation, and ends the program. */
void fabric_wrong(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The function of the real libfabric; ends the program if it is missing. */
void *fabric_real(const char *symbol);

/* Its provider; NULL before fi_getinfo(). */
const char *fabric_real_name(void);

/* The real attributes, before the changes of this library; freed with fi_freeinfo(). */
struct fi_info *fabric_real_info(const struct fi_info *info);

/*
 * Objects
 */

struct domain {
    struct fid_domain fid;
    struct fid_domain *real;
    pthread_mutex_t lock;
    uint64_t random;
    struct mr *mrs;
    struct ep *eps;
    uint64_t last_key;
    unsigned long remote_regions; /* so far */
    unsigned int open;            /* endpoints, queues and regions */
};

struct mr {
    struct fid_mr fid; /* mem_desc: this one, if the mode has FI_MR_LOCAL */
    struct mr *next;
    struct domain *domain;
    struct fid_mr *real; /* NULL: for local use only, or not enabled */
    struct ep *ep;       /* the endpoint to which it is bound */
    uintptr_t addr;
    size_t size;
    uint64_t access, requested;
    bool is_enabled;
};

enum kind { OP_RECV, OP_SEND, OP_WRITE, OP_READ };

/* A posted operation, until its completion is returned. */
struct op {
    struct fi_context2 context; /* for the real libfabric */
    struct op *next, *next_done;
    struct ep *ep;
    struct mr *mr;
    enum kind kind;
    void *user; /* the program's context; NULL: without a completion */
    uint8_t *bytes;
    size_t size;
    uint8_t *copy; /* of the data: the program may already reuse its own */
    fi_addr_t to;
    uint64_t addr, key, flags;
    unsigned int looks; /* number of polls for which it is still delayed */
    bool is_issued, is_done;
    uint64_t number; /* sequence number on the endpoint */
    int error;
    struct fi_cq_msg_entry entry;
};

struct ep {
    struct ep *next;
    struct fid_ep fid;
    struct fid_ep *real;
    struct domain *domain;
    struct cq *cq;
    struct op *ops;           /* all posted ones */
    struct op *first, **last; /* delayed sends, and writes that they must stay behind */
    struct op *bag;           /* operations that may be issued in any order */
    size_t depth;             /* maximum number of receives, and of operations to one peer */
    size_t inject;            /* bytes */
    size_t receives;          /* under way */
    unsigned long messages;   /* sent so far */
    uint64_t posted;          /* so far */
};

struct cq {
    struct fid_cq fid;
    struct fid_cq *real;
    struct domain *domain;
    struct ep *ep;
    struct op *done, **last; /* in the order of the real queue */
    struct op *failed;       /* for fi_cq_readerr() */
};

/* A key of the fabric's own contains the address of its region, at which libfabric's TCP, which
 * only knows offsets, begins to count: bit 63, 47 bits of the address, 16 of the real key. */
enum { REAL_KEY = 0xffff, KEY_BITS = 16 };

static inline uint64_t fabric_key(uint64_t real, uintptr_t addr)
{
    return UINT64_C(1) << 63 | (uint64_t)addr << KEY_BITS | real;
}

static inline bool fabric_key_is_own(uint64_t key)
{
    return key >> 63 != 0 && key != FI_KEY_NOTAVAIL;
}

static inline uintptr_t fabric_key_addr(uint64_t key)
{
    return (uintptr_t)(key << 1 >> (KEY_BITS + 1));
}

uint32_t fabric_below(struct domain *domain, uint32_t n);

/* Objects made in a domain. */
int fabric_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                    void *context);
int fabric_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

/* With the domain's lock: issues operations whose delay is over, polls the real queue, and counts a
 * poll. */
void fabric_look(struct cq *cq);
/* With the domain's lock: is an operation delayed? */
bool fabric_holds(const struct cq *cq);
/* With the domain's lock: takes a completion to return; NULL: none now. */
struct op *fabric_take(struct cq *cq);
void fabric_op_free(struct op *op);
/* With the domain's lock: a region is closed. */
void fabric_forget(struct mr *mr);

#define container(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
