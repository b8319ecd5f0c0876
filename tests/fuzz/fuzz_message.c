/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer target: a process of the job sends arbitrary messages and immediates. They are
 * answered, refused or logged; never a crash, never an access outside of registered memory.
 *
 * A job of two processes, made by hand. The bytes are passed to the engine as if the other process
 * had sent them to an ordinary VCQ, or to the VCQ of the barrier gates; answers are really sent to
 * that process, which must not crash, either.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/inner.h"
#include "barrier/inner.h"
#include "ident/ident.h"
#include "utofu.h"
#include "wire/wire.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NUM_GATES = 2, NUM_POLLS = 16 };

/* The data that the two processes exchange. */
struct card {
    utofu_vcq_id_t vcq_id;
    utofu_vbg_id_t gates[NUM_GATES];
    volatile int ready;
};
static struct card *cards;

static char folder[] = "/tmp/utofu-fuzz-XXXXXX"; /* UTOFU_ROOT */
static pid_t other;
static utofu_vcq_hdl_t hdl;
static uint8_t memory[4096] __attribute__((aligned(256)));
static utofu_stadd_t stadd;
static struct utofu_vbg_setting settings[NUM_GATES];

static void must(int rc)
{
    if (rc != UTOFU_SUCCESS)
        abort();
}

/* The gates of both are a butterfly of two: a start gate and a relay gate each. */
static void set_up(int rank)
{
    const struct card *peer = &cards[!rank];
    struct card *mine = &cards[rank];

    must(utofu_create_vcq(0, 0, &hdl));
    must(utofu_query_vcq_id(hdl, &mine->vcq_id));
    must(utofu_reg_mem(hdl, memory, sizeof(memory), 0, &stadd));
    must(utofu_alloc_vbg(0, NUM_GATES, 0, mine->gates));
    __atomic_store_n(&mine->ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&peer->ready, __ATOMIC_ACQUIRE))
        usleep(1000);
    settings[0] = (struct utofu_vbg_setting){.vbg_id = mine->gates[0],
                                             .src_lcl_vbg_id = mine->gates[1],
                                             .src_rmt_vbg_id = UTOFU_VBG_ID_NULL,
                                             .dst_lcl_vbg_id = mine->gates[1],
                                             .dst_rmt_vbg_id = peer->gates[1]};
    settings[1] = (struct utofu_vbg_setting){.vbg_id = mine->gates[1],
                                             .src_lcl_vbg_id = mine->gates[0],
                                             .src_rmt_vbg_id = peer->gates[0],
                                             .dst_lcl_vbg_id = mine->gates[0],
                                             .dst_rmt_vbg_id = UTOFU_VBG_ID_NULL};
    must(utofu_set_vbg(settings, NUM_GATES));
}

static void poll_all(void)
{
    struct utofu_mrq_notice notice;
    void *cbdata;

    for (int i = 0; i < NUM_POLLS; i++) {
        utofu_poll_tcq(hdl, 0, &cbdata);
        utofu_poll_mrq(hdl, 0, &notice);
    }
    utofu_poll_barrier(settings[0].vbg_id, 0);
}

static void join(int rank)
{
    setenv("UTOFU_ROOT", folder, 1);
    setenv("UTOFU_SIZE", "2", 1);
    setenv("UTOFU_LOCAL_SIZE", "2", 1);
    setenv("UTOFU_RANK", rank ? "1" : "0", 1);
    setenv("UTOFU_LOCAL_RANK", rank ? "1" : "0", 1);
    set_up(rank);
}

static void __attribute__((noreturn)) live_as_the_other(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    join(1);
    for (;;) {
        poll_all();
        usleep(1000);
    }
}

static void remove_folder(void)
{
    static const char *const names[] = {"0", "1", "job"};
    char file[sizeof(folder) + 16];

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(file, sizeof(file), "%s/utofu.%s", folder, names[i]);
        unlink(file);
    }
    if (rmdir(folder) != 0)
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    cards =
        mmap(NULL, sizeof(*cards) * 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cards == MAP_FAILED || !mkdtemp(folder))
        abort();
    other = fork();
    if (other == 0)
        live_as_the_other();
    join(0);
    remove_folder(); /* libFuzzer ends without a message */
    /* brings up the link of the ordinary VCQs; the gates ask each other anyway */
    must(utofu_put(hdl, cards[1].vcq_id, stadd, stadd, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL));
    return 0;
}

/* An existing STADD and gates, so that the fuzzer passes the checks. */
static void make_likely(uint8_t *bytes, size_t size, bool gates)
{
    if (gates && size >= sizeof(struct ut_msg_gate)) {
        struct ut_msg_gate *m = (struct ut_msg_gate *)bytes;
        m->src = cards[m->src & 1].gates[m->src >> 1 & 1];
        m->dst = cards[m->dst & 1].gates[m->dst >> 1 & 1];
    } else if (!gates && size >= sizeof(struct ut_msg_notice)) {
        struct ut_msg_notice *m = (struct ut_msg_notice *)bytes;
        m->rmt_stadd = stadd + (m->rmt_stadd & 0x1fff);
    }
}

/* Like the provider: with the lock, from memory that is aligned and no longer than the message. */
static void arrive(struct ut_vcq *vcq, utofu_vcq_id_t from, const uint8_t *data, size_t size,
                   bool immediate, bool likely, bool gates)
{
    const struct prov_callbacks *calls = &ut_engine_callbacks;
    uint32_t imm;

    ut_lock(&vcq->lock);
    struct ut_link *link = ut_link_get(vcq, from);
    if (!link)
        abort();
    if (immediate && size >= sizeof(imm)) {
        memcpy(&imm, data, sizeof(imm));
        calls->notify(link, imm);
    } else if (!immediate) {
        uint8_t *bytes = malloc(size ? size : 1);
        memcpy(bytes, data, size);
        if (likely)
            make_likely(bytes, size, gates);
        calls->message(link, bytes, size);
        free(bytes);
    }
    ut_unlock(&vcq->lock);
}

static utofu_vcq_id_t gate_vcq_of_the_other(void)
{
    struct ut_vbg_ident gate;

    ut_vbg_id_unpack(cards[1].gates[0], &gate);
    struct ut_vcq_ident vcq = {.coords = gate.coords,
                               .tni = UT_TNI_INTERNAL,
                               .cq = (uint16_t)gate.local_rank,
                               .cmp = gate.tni};
    return ut_vcq_id_canonical(&vcq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { IMMEDIATE = 1, GATES = 2, LIKELY = 4, START = 8, POLL = 16 };

    utofu_set_vbg(settings, NUM_GATES);
    while (size >= 2) {
        unsigned int how = data[0];
        size_t n = (data[1] | how << 3 & 0x700) % (PROV_MSG_MAX + 1);
        data += 2;
        size -= 2;
        if (n > size)
            n = size;
        if (how & START)
            utofu_barrier(settings[0].vbg_id, 0);
        if (how & GATES)
            arrive(ut_gates_vcq(&ut_gate_table.of_tni[0]), gate_vcq_of_the_other(), data, n,
                   how & IMMEDIATE, how & LIKELY, true);
        else
            arrive(ut_vcq_at(hdl), cards[1].vcq_id, data, n, how & IMMEDIATE, how & LIKELY, false);
        if (how & POLL)
            poll_all();
        data += n;
        size -= n;
    }
    poll_all();
    if (waitpid(other, NULL, WNOHANG) != 0) {
        fprintf(stderr, "the other process has ended: it did not survive a message\n");
        abort();
    }
    return 0;
}
