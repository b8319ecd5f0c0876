/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of shared memory, and the datagrams of the handshake: types only. Every process owns
 * one segment (segment.c), a sparse memfd of fixed layout: untouched pages cost nothing.
 *
 *   header, directory of endpoints, table of memory regions    peers map this part read-only
 *   per endpoint: ring header, slots, payloads, counters       peers map this part read-write
 *
 * All fields that two processes access are accessed with __atomic builtins, except the content of a
 * slot between claim and publication.
 */
#ifndef SP_LAYOUT_H
#define SP_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "provider.h"

enum {
    SP_VERSION = 10,  /* of everything in this file */
    SP_MAX_EPS = 256, /* endpoints of a process */
    SP_SLOT_BITS = 9,
    SP_SLOTS = 1 << SP_SLOT_BITS, /* slots of a ring */
    SP_INLINE = 40,               /* payload bytes in a slot */
    SP_INLINE_CHUNK = 32,         /* maximum bytes of a chunk of a write or read in a slot */
    SP_PAYLOAD = PROV_MSG_MAX,    /* bytes per slot in the payload array */
    SP_CONN_BITS = 14,
    SP_MAX_CONNS = 1 << SP_CONN_BITS, /* per endpoint */
    SP_MR_BITS = 20,
    SP_MAX_MRS = 1 << SP_MR_BITS, /* memory regions of a process */
    SP_MR_RANGES = 4,             /* parts of a region that peers may map */
};

/* Directory entry of an endpoint. `state` is (generation << 1) | open. */
struct sp_dir_entry {
    uint64_t id;
    uint32_t state;
    uint32_t reserved;
};

/*
 * A memory region. `state`: (serial << 20) | (generation << 8) | (access << 1) | valid; see mr.h.
 * `ranges`: those that peers may map, in units of 4 KiB counted from the unit that contains
 * `base`: (first << 32) | number; 0: none.
 */
struct sp_mr_entry {
    uint64_t state;
    uint64_t base;
    uint64_t size;
    uint64_t ranges[SP_MR_RANGES];
    uint32_t small_writes_need_cpu; /* 1: peers may map the region. Outside `ranges`, a writer whose
                                       kernel copies a small write in smaller units than the CPU
                                       of this process stores it sends it through the ring */
    uint32_t reserved;
};

struct sp_seg_header {
    uint64_t probe;          /* a known value: the handshake tests cross-memory attach with it */
    uint64_t num_closed_eps; /* number of endpoints closed so far */
};

/* The part of the segment that peers map read-only. */
struct sp_seg_table {
    struct sp_seg_header header;
    uint8_t pad[4096 - sizeof(struct sp_seg_header)];
    struct sp_dir_entry dir[SP_MAX_EPS];
    struct sp_mr_entry mrs[SP_MAX_MRS];
};

enum sp_kind {
    SP_KIND_MESSAGE, /* size bytes */
    SP_KIND_NOTICE,  /* a notice: `imm` of a write with PROV_NOTIFY */
    SP_KIND_WRITE,   /* a chunk of a write; the receiver stores it */
    SP_KIND_READ,    /* a read request */
    SP_KIND_DATA,    /* a chunk of read data */
    SP_KIND_REQUEST, /* connection control: */
    SP_KIND_ACCEPT,
    SP_KIND_REJECT,
    SP_KIND_CLOSE,
    SP_KIND_ERROR, /* an operation failed at the target: the connection is broken */
};

enum sp_slot_flags {
    SP_SLOT_BIG = 1,    /* the bytes are in the payload array */
    SP_SLOT_LAST = 2,   /* the last chunk of a write or of read data */
    SP_SLOT_NOTICE = 4, /* deliver `imm` as a notice when the write is complete */
};

/*
 * state: bits 28..: lap of the ring; 4..27: producer_id; 0..3: phase (ring.h). Zeroed memory is a
 * ring that is free in lap 0. `conn` and `imm` of a free slot are 0, too.
 */
struct sp_slot {
    uint64_t state;
    uint32_t conn; /* the receiver's id of the connection */
    uint32_t imm;
    uint8_t kind;   /* enum sp_kind */
    uint8_t flags;  /* enum sp_slot_flags */
    uint16_t size;  /* number of payload bytes */
    uint32_t extra; /* see the members of the union */
    union {
        uint8_t bytes[SP_INLINE];
        struct {
            uint64_t id; /* of the requesting endpoint */
            uint8_t private_data[PROV_PRIVATE_DATA_MAX];
        } request; /* conn: the requester's id of the connection; imm: `state` in the target's
                      directory entry; extra: the requester's index */
        uint8_t private_data[PROV_PRIVATE_DATA_MAX]; /* ACCEPT. imm: the acceptor's id of the
                                                        connection; extra: its index */
        struct {
            uint64_t addr;
            uint8_t bytes[SP_INLINE_CHUNK];
        } chunk; /* WRITE: extra = rkey. DATA: addr = offset, extra = op_number of the read */
        struct {
            uint64_t addr;
            uint32_t length;
        } read; /* extra = rkey */
        struct {
            uint32_t status;
        } error; /* extra = op_number of the failed operation: see op_queue.c */
    };
};
_Static_assert(sizeof(struct sp_slot) == 64, "a slot is a cache line");

struct sp_ring {
    uint32_t armed; /* consumer is blocked; enum prov_arm: which events ring the doorbell */
    uint32_t rung;  /* the doorbell was rung */
    uint8_t pad0[120];
    uint64_t tail; /* position of the first unclaimed slot, or a lower one */
    uint8_t pad1[4096 - 136];
    struct sp_slot slots[SP_SLOTS];
    uint8_t payload[SP_SLOTS][SP_PAYLOAD];
    /* per connection of the endpoint: (generation << 48) | number of counted operations
     * (op_queue.c) that the peer has executed */
    uint64_t executed_by_peer[SP_MAX_CONNS];
};

/* The beginning of the table and the first rings, which most peers access, are adjacent in the
 * middle, so that one page of the page table maps them: ring 0 is the last one. */
struct sp_segment {
    struct sp_ring rings[SP_MAX_EPS];
    struct sp_seg_table table;
};

/* Returns the ring of the endpoint with this index. */
static inline struct sp_ring *sp_ring_of(struct sp_segment *seg, uint32_t index)
{
    return &seg->rings[SP_MAX_EPS - 1 - index];
}

_Static_assert(sizeof(struct sp_seg_table) % 65536 == 8192 && sizeof(struct sp_ring) % 4096 == 0,
               "parts are whole pages");

/* The address that a process publishes. */
struct sp_address {
    uint32_t version;
    uint32_t pid;
    uint64_t host; /* hash of machine, boot, process and network namespaces */
    uint64_t key;  /* secret: connecting processes must know it */
    uint64_t name; /* of the listening socket */
};
_Static_assert(sizeof(struct sp_address) <= PROV_ADDR_MAX, "address fits");

/* Datagrams between processes. HELLO and WELCOME have the descriptor numbers of the segment and of
 * the memfd of remapped memory, if any; after WANT_FDS the descriptors are attached. */
enum sp_dgram_type {
    SP_DGRAM_HELLO = 0x75740001,
    SP_DGRAM_WELCOME,
    SP_DGRAM_CONFIRM,  /* reply to WELCOME: both sides have mapped the other's segment */
    SP_DGRAM_YIELD,    /* the sender has connected already: wait for that connection */
    SP_DGRAM_DOORBELL, /* doorbell: an endpoint of the receiver has `rung` set */
    SP_DGRAM_CLOSED,   /* an endpoint of the sender was closed: check the directory */
    SP_DGRAM_WANT_FDS, /* cannot open the descriptors by number: attach them */
    SP_DGRAM_BUSY,     /* the sender lacks descriptors or memory: retry later */
    SP_DGRAM_REFUSED,  /* the sender rejects the receiver: see `refusal` */
};

/* Reasons to reject a process. */
enum sp_refusal {
    SP_REFUSAL_OTHER,        /* see the log of the sender */
    SP_REFUSAL_USER,         /* the receiver runs as another user */
    SP_REFUSAL_USER_CHANGED, /* the same, and the sender has changed its user since it started */
    SP_REFUSAL_KEY,          /* the receiver does not know the sender's key */
    SP_REFUSAL_VERSION,      /* the receiver uses another version of this protocol */
};

struct sp_dgram {
    uint32_t type;
    uint32_t version;
    uint64_t target_key; /* HELLO: proves that the sender knows the address */
    uint64_t key;        /* of the sender */
    uint32_t pid;
    uint32_t producer_id; /* the receiver's producer id for claims in the sender's rings */
    uint64_t probe_addr;
    uint64_t
        probe; /* probe_addr: address of the probe in the sender; probe: its value in the segment */
    int32_t seg_fd;   /* of the sender */
    int32_t remap_fd; /* of the sender; -1: none */
    uint32_t uid;     /* REFUSED: user of the sender */
    uint32_t refusal; /* enum sp_refusal */
};

#endif
