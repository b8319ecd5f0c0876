/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts of the data that processes exchange: the published address record, the hello of a
 * connection, the immediates and the messages. All integers are little-endian.
 */
#ifndef UT_WIRE_WIRE_H
#define UT_WIRE_WIRE_H

#include <stdint.h>

#include "utofu.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "the wire format is little-endian"
#endif

enum {
    UT_WIRE_VERSION = 8, /* when it is increased: docs/reference/versions.md */
    UT_ADDRESS_RECORD_MAGIC = 0x5554,
};

/* The hello: 32 bytes, PROV_PRIVATE_DATA_MAX. */
struct ut_hello {
    uint8_t version;
    uint8_t armw_mode; /* UT_ARMW_CPU or UT_ARMW_NIC */
    uint16_t serial;   /* number of times that the link was up, with this one if accepting */
    uint32_t dir_rkey; /* of the STag directory that the sender's VCQ has for this provider */
    uint64_t dir_addr; /* address of an array of struct ut_stag_dir_entry */
    uint64_t rx_count; /* number of messages and immediates that this VCQ and earlier VCQs with its
                          id received from the other side */
    uint64_t incarnation; /* random: differs from that of an earlier VCQ with the same id */
};
_Static_assert(sizeof(struct ut_hello) == 32, "fits every provider's hello");

/*
 * The STag table of a VCQ, which peers read: a directory of chunks, and chunks of entries. Each
 * provider has its own table, so the layout does not depend on the number of providers.
 */
struct ut_stag_dir_entry {
    uint64_t addr; /* address of the chunk, an array of struct ut_stag_entry; 0: no chunk */
    uint32_t rkey;
    uint32_t zero;
};
_Static_assert(sizeof(struct ut_stag_dir_entry) == 16, "no padding");

struct ut_stag_entry {
    uint64_t base;
    uint64_t size;
    uint32_t rkey;
    uint32_t info;  /* bit 0: valid, bit 1: writable, bits 8..13: generation */
    uint64_t check; /* checksum of the fields above: detects a torn read */
};
_Static_assert(sizeof(struct ut_stag_entry) == 32, "no padding");
enum { UT_STAG_VALID = 1, UT_STAG_WRITABLE = 2, UT_STAG_GENERATION_SHIFT = 8 };

/* Immediate of a put: edata in bits 0..7, sps in 8..11, notice in 12, slot in 16..31. */
enum { UT_IMM_NOTICE = 1u << 12, UT_IMM_SLOT_SHIFT = 16, UT_NUM_ANNOUNCED = 512 };

static inline uint32_t ut_imm_make(unsigned int edata, unsigned int sps, int notice,
                                   unsigned int slot)
{
    return edata | sps << 8 | (notice ? UT_IMM_NOTICE : 0u) | slot << UT_IMM_SLOT_SHIFT;
}

enum ut_msg_type {
    UT_MSG_NOTICE = 1, /* remote notice of a put, with the STADD for its slot, or of a get */
    UT_MSG_ARMW,       /* the target's CPU executes the operation and replies */
    UT_MSG_ARMW_REPLY,
    UT_MSG_ARMW_NOTICE, /* remote notice of an ARMW that a device executed */
    UT_MSG_GATE,        /* control message between barrier gates */
    UT_MSG_PACKET,      /* packet between barrier gates */
    UT_MSG_RAILS,       /* number of rails on which the sender takes parts of puts */
    UT_MSG_RAIL_KEYS,   /* keys of an STag for rails */
};

struct ut_msg_head {
    uint8_t type;
    uint8_t edata;
    uint8_t sps;   /* NOTICE */
    uint8_t flags; /* below */
    union {
        uint32_t slot; /* NOTICE: announced slot; ARMW: the origin's identifier, which REPLY
                          returns */
        struct {
            uint8_t rail_count;    /* RAILS */
            uint8_t other_devices; /* RAILS, bit n: port n + 1 belongs to another device */
            uint8_t zero[2];
        };
        uint32_t rails; /* RAIL_KEYS, bit n: the key for port n + 1 */
    };
};
_Static_assert(sizeof(struct ut_msg_head) == 8, "no padding");
enum {
    UT_MSG_FLAG_WANTS_NOTICE = 1, /* NOTICE, ARMW: the receiver writes an MRQ entry */
    UT_MSG_FLAG_GET = 2,          /* NOTICE: of a get */
    UT_MSG_FLAG_REQUEST = 4,      /* RAILS: reply with the own number; RAIL_KEYS: a request */
};
enum { UT_MAX_RAILS = 3 }; /* maximum number of further ports */

struct ut_msg_notice {
    struct ut_msg_head head;
    utofu_stadd_t rmt_stadd;
    utofu_stadd_t lcl_stadd; /* gets only */
};

struct ut_msg_armw {
    struct ut_msg_head head;
    utofu_stadd_t rmt_stadd;
    uint64_t operand, compare;
    uint8_t op, size;
    uint8_t zero[6];
};

struct ut_msg_armw_reply {
    struct ut_msg_head head;
    uint64_t old_value;
    int32_t rc; /* UTOFU_SUCCESS or UTOFU_ERR_MRQ_RMT_* */
    uint32_t zero;
};

/* The memory of an STag, with its keys for devices of further ports. */
struct ut_msg_rail_keys {
    struct ut_msg_head head;
    utofu_stadd_t rmt_stadd;
    uint64_t base, size;
    uint32_t rkey[UT_MAX_RAILS]; /* 0: not requested, or not registered for this port */
    uint32_t zero;
};
_Static_assert(sizeof(struct ut_msg_rail_keys) == 48, "no padding");

/* A packet; its value follows. The connection determines TNIs and processes. With one double the
 * packet fits into a ring slot of the shm provider. */
struct ut_msg_packet {
    uint8_t type;
    uint8_t src, dst; /* gate indices */
    uint8_t last;     /* 1: last packet of src */
    uint32_t epoch;   /* epoch of src */
    uint32_t number;  /* counts packets of src within the epoch */
};
_Static_assert(sizeof(struct ut_msg_packet) == 12, "no padding");

/* Control messages between barrier gates. head.slot: the epoch of src. */
enum ut_gate_msg {
    UT_GATE_QUERY = 1, /* to src: dst receives from src, and requests its epoch and state */
    UT_GATE_REPLY,     /* to dst: epoch and state of src */
};
struct ut_msg_gate {
    struct ut_msg_head head; /* flags: enum ut_gate_msg */
    utofu_vbg_id_t src, dst;
    uint64_t number; /* REPLY: number of the last packet sent to dst */
    uint32_t serial; /* QUERY, REPLY: serial number of the setting of dst */
    uint8_t last;    /* QUERY: 1 if a barrier waits for src */
    uint8_t answer;  /* REPLY: enum ut_gate_answer */
    uint8_t zero[2];
};
_Static_assert(sizeof(struct ut_msg_gate) == 40, "no padding");

/* The address record that each process publishes. The addresses of its providers follow. */
struct ut_address_record {
    uint16_t magic, version;
    uint16_t local_rank, local_size; /* fugaku: local_size is the maximum of any node */
    uint32_t node;
    uint16_t cq_first, num_cqs; /* range of CQ ids; with cq_list, num_cqs ids follow the struct */
    uint64_t host;              /* hash; equal for processes that can share memory */
    uint8_t armw_mode;
    uint8_t num_addrs;       /* number of struct ut_record_address that follow */
    uint8_t cq_list;         /* 1: a list of uint16_t CQ ids precedes the addresses */
    uint8_t has_contact;     /* 1: a struct ut_contact follows at the end */
    uint32_t boot;           /* hash of the boot id, for error messages */
    uint32_t pid_ns, net_ns; /* namespaces of the process, for error messages */
    /* table of the check mode; 0 and 0 if this process has made none */
    uint32_t check_pid, check_fd;
};
_Static_assert(sizeof(struct ut_address_record) == 48, "no padding");

/* The address of one provider. Processes that do not know the provider skip the address. */
struct ut_record_address {
    uint8_t provider; /* number in provider/providers.h */
    uint8_t size;
    uint8_t bytes[];
};
_Static_assert(sizeof(struct ut_record_address) == 2, "no padding");

/* Contact for the summary of a job (UTOFU_STATS=job): a TCP address, and a token that each
 * connection has to send. */
struct ut_contact {
    uint8_t ip[16]; /* IPv4 as ::ffff:a.b.c.d */
    uint64_t token;
    uint16_t port, zero[3];
};
_Static_assert(sizeof(struct ut_contact) == 32, "no padding");

#endif
