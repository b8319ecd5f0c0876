/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notes NAME within|beyond: a program for a note of UTOFU_CHECK that stays within the limits of the
 * real machine, or uses features that have an effect there; or that goes beyond, by one if the
 * limit is a number. All communication is with itself. NAME "list" prints, one per line: NAME,
 * processes of each version, notes of each version, and the text of the note of "beyond".
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utofu.h"
#include "utofu_ext.h"
#include "../harness/limit.h"

enum { SIZE = 4096, MQ = 1024, TQ = 1024, MANY = 1000 };
#define TCQ UTOFU_ONESIDED_FLAG_TCQ_NOTICE
#define MRQ UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE

static uint8_t mem[SIZE] __attribute__((aligned(256)));
static utofu_vcq_hdl_t vcq;
static utofu_vcq_id_t id;
static utofu_stadd_t stadd;

#define OK(call) ok(call, __LINE__)
static void ok(int rc, int line)
{
    if (rc == UTOFU_SUCCESS)
        return;
    fprintf(stderr, "notes.c:%d: %d\n", line, rc);
    exit(EXIT_FAILURE);
}

static void poll_tcq(size_t n)
{
    void *cbdata;
    int rc;

    while (n-- > 0) {
        while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
            ;
        OK(rc);
    }
}

static void poll_mrq(size_t n)
{
    struct utofu_mrq_notice notice;
    int rc;

    while (n-- > 0) {
        while ((rc = utofu_poll_mrq(vcq, 0, &notice)) == UTOFU_ERR_NOT_FOUND)
            ;
        OK(rc);
    }
}

/* Waits until n notices are in the MRQ, without taking them. */
static void await_mrq(size_t n)
{
    for (size_t unread = 0; unread < n;)
        OK(utofu_query_num_unread_mrq(vcq, &unread));
}

static void put(unsigned long int flags)
{
    OK(utofu_put(vcq, id, stadd, stadd + SIZE / 2, 256, 0, flags | MRQ, NULL));
    poll_mrq(1);
}

static void piggyback(unsigned long int flags)
{
    OK(utofu_put_piggyback8(vcq, id, 1, stadd + SIZE / 2, 8, 0, flags | MRQ, NULL));
    poll_mrq(1);
}

/*
 * The programs: beyond or within
 */

static void create(size_t n, unsigned long int flags)
{
    utofu_vcq_hdl_t more;

    while (n-- > 0)
        OK(utofu_create_vcq(0, flags, &more));
}

/* Eight VCQs per CQ. Each of four processes has 1 CQ for ordinary VCQs and 2 for session mode: the
 * existing VCQ, and the others. */
static void cqs(bool beyond)
{
    create(beyond ? 9 : 8, UTOFU_VCQ_FLAG_SESSION_MODE);
}
static void session_cqs(bool beyond)
{
    create(beyond ? 17 : 16, UTOFU_VCQ_FLAG_SESSION_MODE);
}

static void allocate(utofu_tni_id_t tni, size_t gates)
{
    utofu_vbg_id_t ids[32];

    OK(utofu_alloc_vbg(tni, gates, 0, ids));
}
static void start_gates(bool beyond)
{
    utofu_vbg_id_t ids[1];

    /* freed gates, and those of another TNI, do not count */
    for (int i = 0; i < (beyond ? 9 : 8); i++)
        allocate(0, 1);
    for (int i = 0; i < 3; i++) {
        OK(utofu_alloc_vbg(1, 1, 0, ids));
        OK(utofu_free_vbg(ids, 1));
        allocate(1, 2);
    }
}
static void relay_gates(bool beyond)
{
    utofu_vbg_id_t ids[10];

    OK(utofu_alloc_vbg(2, 10, 0, ids));
    OK(utofu_free_vbg(ids, 10));
    allocate(2, 9);
    allocate(2, beyond ? 10 : 9);
}

static void processes(bool beyond)
{
    (void)beyond;
}

static void *other_thread(void *arg)
{
    void *cbdata;

    OK(-(utofu_poll_tcq(*(utofu_vcq_hdl_t *)arg, 0, &cbdata) != UTOFU_ERR_NOT_FOUND));
    return NULL;
}
static void threads(bool beyond)
{
    utofu_vcq_hdl_t used;
    pthread_t thread;
    void *cbdata;

    OK(utofu_create_vcq(0, beyond ? 0 : UTOFU_VCQ_FLAG_THREAD_SAFE, &used));
    OK(-(utofu_poll_tcq(used, 0, &cbdata) != UTOFU_ERR_NOT_FOUND));
    OK(pthread_create(&thread, NULL, other_thread, &used));
    pthread_join(thread, NULL);
}

static void gap(bool beyond)
{
    OK(utofu_put_gap(vcq, id, stadd, stadd + SIZE / 2, 8, 0, MRQ, 1920, beyond ? 1 : 0, NULL));
    poll_mrq(1);
}
static void mtu(bool beyond)
{
    OK(utofu_put_gap(vcq, id, stadd, stadd + SIZE / 2, 8, 0, MRQ, beyond ? 256 : 1920, 0, NULL));
    poll_mrq(1);
}
static void path_flag(bool beyond)
{
    put(beyond ? UTOFU_ONESIDED_FLAG_PATH(1) : 0);
}
static void path_of_id(bool beyond)
{
    uint8_t coords[6];

    OK(utofu_query_my_coords(coords));
    coords[3] ^= beyond;
    OK(utofu_set_vcq_id_path(&id, coords + 3));
    put(0);
}
static void path_of_gate(bool beyond)
{
    utofu_vbg_id_t gate;

    OK(utofu_alloc_vbg(0, 1, 0, &gate));
    struct utofu_vbg_setting setting = {gate, gate, gate, gate, gate, {0, 1, 0}};
    if (!beyond)
        setting.dst_path_coords[0] = UTOFU_PATH_COORD_NULL;
    OK(utofu_set_vbg(&setting, 1));
}
static void injection(bool beyond)
{
    put(beyond ? UTOFU_ONESIDED_FLAG_CACHE_INJECTION : 0);
}
static void weak_injection(bool beyond)
{
    if (beyond)
        piggyback(UTOFU_ONESIDED_FLAG_CACHE_INJECTION);
    else
        put(UTOFU_ONESIDED_FLAG_CACHE_INJECTION);
}
static void padding(bool beyond)
{
    if (beyond)
        piggyback(UTOFU_ONESIDED_FLAG_CACHE_INJECTION | UTOFU_ONESIDED_FLAG_PADDING);
    else
        put(UTOFU_ONESIDED_FLAG_CACHE_INJECTION);
}
static void response(bool beyond)
{
    put(beyond ? UTOFU_ONESIDED_FLAG_PACKET_RESPONSE : 0);
}
static void extension(bool beyond)
{
    if (beyond)
        OK(utofu_wake_vcq(vcq));
}

/* The last of three puts shows that all have arrived; or it is not ordered. */
static void unasked(bool beyond)
{
    put(0);
    for (int i = 0; i < 2; i++)
        OK(utofu_put(vcq, id, stadd, stadd + SIZE / 2 + 512 * i, 256, 0, 0, NULL));
    OK(utofu_put(vcq, id, stadd, stadd + SIZE / 2 + 1024, 8, 0,
                 MRQ | (beyond ? 0 : UTOFU_ONESIDED_FLAG_STRONG_ORDER), NULL));
    poll_mrq(1);
}

/* The background thread may start one of the puts before the CPU has written. */
static void line(bool beyond)
{
    for (int i = 0; i < 20; i++) {
        OK(utofu_put(vcq, id, stadd, stadd + SIZE / 2 + 64, 64, 0, MRQ, NULL));
        ((volatile uint8_t *)mem)[SIZE / 2 + (i % 2 ? 63 : 128) + (beyond ? 0 : 256)]++;
        poll_mrq(1);
        /* what communications write there is in order */
        for (int k = 0; k < 4; k++)
            OK(utofu_put(vcq, id, stadd + 256, stadd + SIZE / 2 + 64 * (size_t)k, 64, 0, MRQ,
                         NULL));
        poll_mrq(4);
        mem[256]++;
    }
}

static void unread_tcq(bool beyond)
{
    put(TCQ);
    poll_tcq(beyond ? 0 : 1);
}
static void unread_mrq(bool beyond)
{
    put(0);
    OK(utofu_put(vcq, id, stadd, stadd + SIZE / 2, 8, 0, MRQ, NULL));
    await_mrq(1);
    poll_mrq(beyond ? 0 : 1);
}
static void crowded_mrq(bool beyond)
{
    size_t n = MQ + (beyond ? 1 : 0);

    for (size_t i = 0; i < n; i++) {
        OK(utofu_put_piggyback8(vcq, id, i, stadd, 8, 0,
                                MRQ | TCQ | UTOFU_ONESIDED_FLAG_STRONG_ORDER, NULL));
        poll_tcq(1);
    }
    await_mrq(n);
    poll_mrq(n);
}
static void long_toq(bool beyond)
{
    size_t n = TQ + (beyond ? 1 : 0);
    void *cbdata;

    for (size_t i = 0; i < n; i++)
        OK(utofu_nop(vcq, TCQ, NULL));
    poll_tcq(n);
    OK(-(utofu_poll_tcq(vcq, 0, &cbdata) != UTOFU_ERR_NOT_FOUND));
}
static void no_empty_poll(bool beyond)
{
    struct utofu_mrq_notice notice;

    for (int i = 0; i < MANY + 1; i++)
        OK(utofu_put_piggyback8(vcq, id, 1, stadd, 8, 0, MRQ | UTOFU_ONESIDED_FLAG_STRONG_ORDER,
                                NULL));
    await_mrq(MANY + 1);
    for (int i = 0; i < MANY + 1; i++)
        OK(utofu_poll_mrq(vcq, 0, &notice));
    if (!beyond)
        OK(-(utofu_poll_mrq(vcq, 0, &notice) != UTOFU_ERR_NOT_FOUND));
}
/* Two descriptors wait for a put with the SPS 1 or 2. */
static void unstarted(bool beyond)
{
    utofu_vcq_hdl_t session;
    utofu_vcq_id_t session_id;
    utofu_stadd_t there;
    void *cbdata;

    OK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &session));
    OK(utofu_query_vcq_id(session, &session_id));
    OK(utofu_reg_mem(session, mem, sizeof(mem), 0, &there));
    for (int i = 0; i < 2; i++)
        OK(utofu_put(session, id, there, stadd + SIZE / 2, 8, 0, TCQ, NULL));
    OK(utofu_put(vcq, session_id, stadd + 64, there + 64, 8, 0,
                 MRQ | UTOFU_ONESIDED_FLAG_SPS(beyond ? 1 : 2), NULL));
    poll_mrq(1);
    for (int i = beyond; i < 2; i++)
        while (utofu_poll_tcq(session, 0, &cbdata) != UTOFU_SUCCESS)
            ;
}

/* The value of a put of one word is its notice, also of what came before it. That of two is not,
 * nor without STRONG_ORDER. */
static void word_is_notice(bool beyond)
{
    uint64_t words[2] = {1, 2};

    OK(utofu_put(vcq, id, stadd, stadd + SIZE / 2, 256, 0, 0, NULL));
    OK(utofu_put_piggyback8(vcq, id, 1, stadd + SIZE / 2 + 512, 8, 0,
                            UTOFU_ONESIDED_FLAG_STRONG_ORDER, NULL));
    for (int i = 0; i < 2 && beyond; i++)
        OK(utofu_put_piggyback(vcq, id, words, stadd + SIZE / 2 + 1024, i ? 8 : 9, 0,
                               i ? 0 : UTOFU_ONESIDED_FLAG_STRONG_ORDER, NULL));
    put(0);
}

static const struct {
    const char *name;
    void (*body)(bool beyond);
    int processes_within, processes_beyond;
    int notes_within, notes_beyond;
    const char *text;
} notes[] = {
    {"cqs", cqs, 4, 4, 0, 2, "12 CQs of a TNI are used on a node"},
    {"session_cqs", session_cqs, 1, 1, 0, 1, "3 session-mode CQs of a TNI are used"},
    {"start_gates", start_gates, 2, 2, 0, 1, "18 start/end gates of a TNI are used on a node"},
    {"relay_gates", relay_gates, 2, 2, 0, 1, "34 relay gates of a TNI are used on a node"},
    {"processes", processes, 48, 49, 1, 2, "49 processes are on a node"},
    {"threads", threads, 1, 1, 0, 1, "1 VCQ was used by several threads"},
    {"gap", gap, 1, 1, 0, 1, "1 put or get had a gap or an MTU"},
    {"mtu", mtu, 1, 1, 0, 1, "1 put or get had a gap or an MTU"},
    {"path_flag", path_flag, 1, 1, 0, 1, "1 communication had a path"},
    {"path_of_id", path_of_id, 1, 1, 0, 1, "1 communication had a path"},
    {"path_of_gate", path_of_gate, 1, 1, 0, 1, "1 gate was set with a path"},
    {"injection", injection, 1, 1, 0, 1, "1 communication had CACHE_INJECTION"},
    {"weak_injection", weak_injection, 1, 1, 1, 2, "1 of them was a piggyback put without PADDING"},
    {"padding", padding, 1, 1, 1, 2, "1 put had PADDING"},
    {"response", response, 1, 1, 0, 1, "1 communication had PACKET_RESPONSE"},
    {"extension", extension, 1, 1, 0, 1, "1 call was of a function of utofu_ext.h"},
    {"unasked", unasked, 1, 1, 0, 1,
     "2 puts had no notice, and no put with a notice and STRONG_ORDER followed"},
    {"word_is_notice", word_is_notice, 1, 1, 0, 1,
     "2 puts had no notice, and no put with a notice and STRONG_ORDER followed"},
    {"line", line, 1, 1, 0, 1, "lines of 256 bytes in which a CPU wrote while a put"},
    {"unread_tcq", unread_tcq, 1, 1, 0, 1, "1 TCQ entry was requested and never polled"},
    {"unread_mrq", unread_mrq, 1, 1, 0, 1, "1 MRQ notice came and was never polled"},
    {"crowded_mrq", crowded_mrq, 1, 1, 0, 1,
     "1 VCQ had an MRQ that was more than half full, at most 1025 of 2048 entries"},
    {"long_toq", long_toq, 1, 1, 0, 1,
     "1 VCQ had more than 1024 descriptors at one time whose TCQ entries were not polled, at most "
     "1025"},
    {"no_empty_poll", no_empty_poll, 1, 1, 0, 1,
     "1 VCQ had more than 1000 communications and no poll"},
    {"unstarted", unstarted, 1, 1, 0, 1, "1 descriptor of a session-mode VCQ was never started"},
};

int main(int argc, char **argv)
{
    enum { NUM = sizeof(notes) / sizeof(notes[0]) };
    bool beyond = argc > 2 && strcmp(argv[2], "beyond") == 0;
    int i = 0;

    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (; i < NUM; i++)
            printf("%s %d %d %d %d %s\n", notes[i].name, notes[i].processes_within,
                   notes[i].processes_beyond, notes[i].notes_within, notes[i].notes_beyond,
                   notes[i].text);
        return fflush(stdout);
    }
    while (i < NUM && (argc != 3 || strcmp(argv[1], notes[i].name) != 0))
        i++;
    if (i == NUM)
        return 2;
    OK(utofu_create_vcq(0, 0, &vcq));
    OK(utofu_query_vcq_id(vcq, &id));
    OK(utofu_reg_mem(vcq, mem, sizeof(mem), 0, &stadd));
    notes[i].body(beyond);
    return EXIT_SUCCESS;
}
