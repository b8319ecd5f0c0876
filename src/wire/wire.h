/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What travels between processes: the blob that each publishes, the greeting of a connection, the
 * immediates and the messages. Layouts only; all integers little-endian as the machines are.
 */
#ifndef UT_WIRE_WIRE_H
#define UT_WIRE_WIRE_H

#include <stdint.h>

#include "utofu.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire format is little-endian"
#endif

enum {
    UT_WIRE_VERSION = 2,
    UT_BLOB_MAGIC = 0x5554,
    UT_NUM_PROVIDERS = 2, /* index 0: shm, 1: verbs */
    UT_PROV_SHM = 0,
    UT_PROV_VERBS = 1,
};

/* The greeting: 32 bytes, PROV_HELLO_MAX. */
struct ut_hello {
    uint8_t version;
    uint8_t armw_mode;   /* UT_ARMW_CPU or UT_ARMW_NIC */
    uint16_t serial;     /* how often the link was up so far, the accepter's counting this time */
    uint32_t dir_rkey;   /* the STag directory of the sender's VCQ, */
    uint64_t dir_addr;   /* an array of struct ut_stag_dir */
    uint64_t rx_count;   /* messages and immediates it has received from the other side */
    uint64_t session;    /* random: tells a reborn VCQ of the same id from the old one */
};
_Static_assert(sizeof(struct ut_hello) == 32, "fits every provider's greeting");

/* Immediate of a put: edata8 | sps4 | notice1 | 0... | slot16 */
enum { UT_IMM_NOTICE = 1u << 12, UT_IMM_SLOT_SHIFT = 16, UT_NUM_ANNOUNCED = 512 };

static inline uint32_t ut_imm_make(unsigned int edata, unsigned int sps, int notice,
                                   unsigned int slot)
{
    return edata | sps << 8 | (notice ? UT_IMM_NOTICE : 0u) | slot << UT_IMM_SLOT_SHIFT;
}

enum ut_msg_type {
    UT_MSG_NOTICE = 1, /* a put's or get's remote notice in full; a put's also announces its slot */
    UT_MSG_ARMW,       /* do this and answer */
    UT_MSG_ARMW_REPLY,
    UT_MSG_ARMW_NOTICE, /* the remote notice of an ARMW that a device executed */
    UT_MSG_GATE,       /* what barrier gates tell each other */
    UT_MSG_PACKET,     /* a packet between barrier gates */
};

struct ut_msg_head {
    uint8_t type;
    uint8_t edata;
    uint8_t sps;     /* NOTICE */
    uint8_t flags;   /* below */
    uint32_t slot;   /* NOTICE: announced slot; ARMW, REPLY: the origin's TOQ slot */
};
enum {
    UT_MSG_FLAG_WANTS_NOTICE = 1, /* NOTICE, ARMW: write an MRQ entry */
    UT_MSG_FLAG_GET = 2,          /* NOTICE: of a get */
};

struct ut_msg_notice {
    struct ut_msg_head head;
    utofu_stadd_t rmt_stadd;
    utofu_stadd_t lcl_stadd; /* get */
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

/* A packet; its value follows. The connection says which TNIs of which processes. With one double
 * it fits where the shm provider takes messages fastest. */
struct ut_msg_packet {
    uint8_t type;
    uint8_t src, dst; /* gates */
    uint8_t last;     /* none comes after it */
    uint32_t epoch;   /* of src */
    uint32_t number;  /* counts those of src, in the epoch */
};
_Static_assert(sizeof(struct ut_msg_packet) == 12, "no padding");

/* Between barrier gates, besides packets. head.slot: the epoch of src. */
enum ut_gate_msg {
    UT_GATE_QUERY = 1, /* to src: dst is set to receive from you */
    UT_GATE_ANSWER,    /* to dst: these are my epoch and state */
};
struct ut_msg_gate {
    struct ut_msg_head head; /* flags: enum ut_gate_msg */
    utofu_vbg_id_t src, dst;
    uint64_t number;         /* ANSWER: of the last packet sent to dst */
    uint32_t serial;         /* QUERY, ANSWER: of the setting of dst */
    uint8_t last;            /* QUERY: a barrier waits for src */
    uint8_t answer;          /* ANSWER: enum ut_gate_answer */
    uint8_t zero[2];
};
_Static_assert(sizeof(struct ut_msg_gate) == 40, "no padding");

/* What each process publishes: this, then the addresses of its providers. */
struct ut_blob {
    uint16_t magic, version;
    uint16_t local_rank, local_size;
    uint32_t node;
    uint16_t cq_first, num_cqs; /* a run of CQ ids; with a list: num_cqs ids behind the struct */
    uint64_t host;              /* hash that is equal for processes of one host */
    uint8_t armw_mode;
    uint8_t addr_size[UT_NUM_PROVIDERS];
    uint8_t cq_list;            /* 1: an explicit list of uint16_t CQ ids follows */
    uint32_t zero;
};
_Static_assert(sizeof(struct ut_blob) == 32, "no padding");

#endif
