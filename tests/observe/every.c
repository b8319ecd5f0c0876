/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls all functions of the manual that start, prepare or poll something, from one process to
 * itself, with what is in the manual only.
 *
 *     every            all of them, in two threads
 *     every wrong      ... and what a check can find: a source that is written too early, memory
 *                      that is not registered, calls that fail
 *     every hang       starts, polls nothing, prints "waits" and waits for a signal
 *     every long N     N puts with their polls, and then SIGKILL
 *     every bench N    prints ns for each of N polls, and for each of N / 4 puts with their polls
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <utofu.h>

/* Only where the program is linked with libutofu-observe, or another library that has them. */
#include "../harness/limit.h"

extern int utofu_profile_start(const char *name) __attribute__((weak));
extern int utofu_profile_stop(const char *name) __attribute__((weak));
extern int utofu_profile_seen(utofu_stadd_t stadd, size_t length) __attribute__((weak));

#define CALL(call)                                                                                 \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != UTOFU_SUCCESS) {                                                                \
            fprintf(stderr, "every: line %d: %s: %d\n", __LINE__, #call, rc_);                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { SIZE = 1 << 16, DESCS = 16, LIMIT = 100000000 };

static const unsigned long tcq = UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                           local = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
                           remote = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;

struct side {
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id, with_path;
    utofu_stadd_t stadd;
    char *memory;
};

static void open_side(struct side *s, utofu_tni_id_t tni)
{
    uint8_t path[3] = {1, 2, 1};

    s->memory = aligned_alloc(4096, SIZE);
    memset(s->memory, 0, SIZE);
    CALL(utofu_create_vcq(tni, 0, &s->vcq));
    CALL(utofu_query_vcq_id(s->vcq, &s->id));
    s->with_path = s->id;
    CALL(utofu_set_vcq_id_path(&s->with_path, path));
    CALL(utofu_reg_mem(s->vcq, s->memory, SIZE, 0, &s->stadd));
}

static void close_side(struct side *s)
{
    CALL(utofu_dereg_mem(s->vcq, s->stadd, 0));
    CALL(utofu_free_vcq(s->vcq));
    free(s->memory);
}

static void take_tcq(struct side *s, int n)
{
    void *cbdata;

    for (int i = 0; n > 0 && i < LIMIT; i++) {
        int rc = utofu_poll_tcq(s->vcq, 0, &cbdata);
        if (rc == UTOFU_ERR_NOT_FOUND)
            continue;
        CALL(rc);
        n--;
    }
}

static void take_mrq(struct side *s, int n)
{
    struct utofu_mrq_notice notice;

    for (int i = 0; n > 0 && i < LIMIT; i++) {
        int rc = utofu_poll_mrq(s->vcq, 0, &notice);
        if (rc == UTOFU_ERR_NOT_FOUND)
            continue;
        CALL(rc);
        n--;
    }
}

static void start_all(struct side *s)
{
    utofu_stadd_t from = s->stadd, to = s->stadd + SIZE / 2;
    utofu_vcq_hdl_t v = s->vcq;
    uint8_t path[3] = {0, 1, 0};
    utofu_path_id_t path_id;
    char data[8] = "abcdefg";

    CALL(utofu_get_path_id(s->id, path, &path_id));
    CALL(utofu_put(v, s->id, from, to, 100, 1, tcq | local | remote, s));
    CALL(utofu_put(v, s->id, from, to, 100, 1, tcq | local | remote, s));
    CALL(utofu_put(v, s->with_path, from, to, 8, 2, tcq | UTOFU_ONESIDED_FLAG_PATH(path_id), s));
    CALL(utofu_put_gap(v, s->id, from, to, 4000, 3, tcq, 256, 10, s));
    CALL(utofu_put_gap(v, s->id, from, to, 4000, 3, tcq, 1920, 0, s));
    CALL(utofu_put_stride(v, s->id, from, to, 16, 64, 3, 4, tcq, s));
    CALL(utofu_put_stride_gap(v, s->id, from, to, 16, 64, 2, 4, tcq, 512, 1, s));
    CALL(utofu_put_piggyback(v, s->id, data, to, 8, 5, tcq | remote, s));
    CALL(utofu_put_piggyback8(v, s->id, 7, to, 8, 6, tcq, s));
    CALL(utofu_get(v, s->id, from + 4096, to, 100, 7, tcq | local, s));
    CALL(utofu_get_gap(v, s->id, from + 8192, to, 4000, 7, tcq | local, 1024, 3, s));
    CALL(utofu_get_stride(v, s->id, from + 16384, to, 16, 64, 2, 8, tcq | local, s));
    CALL(utofu_get_stride_gap(v, s->id, from + 20480, to, 16, 64, 2, 8, tcq | local, 256, 2, s));
    CALL(utofu_armw4(v, s->id, UTOFU_ARMW_OP_ADD, 1, to, 9, tcq | local, s));
    CALL(utofu_armw8(v, s->id, UTOFU_ARMW_OP_XOR, 1, to, 9, tcq | local, s));
    CALL(utofu_cswap4(v, s->id, 0, 1, to, 9, tcq | local, s));
    CALL(utofu_cswap8(v, s->id, 0, 1, to, 9, tcq | local | remote, s));
    CALL(utofu_nop(v, tcq, s));
    take_tcq(s, 22);
    take_mrq(s, 16);
}

static void prepare_all(struct side *s)
{
    utofu_stadd_t from = s->stadd, to = s->stadd + SIZE / 2;
    utofu_vcq_hdl_t v = s->vcq;
    struct utofu_onesided_caps *caps;
    size_t used = 0, n;

    CALL(utofu_query_onesided_caps(0, &caps));
    char *room = aligned_alloc(256, (size_t)DESCS * 4 * ((caps->max_toq_desc_size + 255) & ~255ul));
#define ADD(call)                                                                                  \
    do {                                                                                           \
        char *desc = room + used;                                                                  \
        CALL(call);                                                                                \
        used += n;                                                                                 \
    } while (0)
    ADD(utofu_prepare_put(v, s->id, from, to, 64, 1, tcq, desc, &n));
    ADD(utofu_prepare_put_gap(v, s->id, from, to, 64, 1, tcq, 256, 1, desc, &n));
    ADD(utofu_prepare_put_stride(v, s->id, from, to, 64, 128, 3, 1, tcq, desc, &n));
    ADD(utofu_prepare_put_stride_gap(v, s->id, from, to, 64, 128, 2, 1, tcq, 256, 1, desc, &n));
    ADD(utofu_prepare_put_piggyback(v, s->id, &used, to, 8, 1, tcq, desc, &n));
    ADD(utofu_prepare_put_piggyback8(v, s->id, 8, to, 8, 1, tcq, desc, &n));
    ADD(utofu_prepare_get(v, s->id, from + 4096, to, 64, 1, tcq | local, desc, &n));
    ADD(utofu_prepare_get_gap(v, s->id, from + 8192, to, 64, 1, tcq | local, 256, 1, desc, &n));
    ADD(utofu_prepare_get_stride(v, s->id, from + 16384, to, 64, 128, 2, 1, tcq | local, desc, &n));
    ADD(utofu_prepare_get_stride_gap(v, s->id, from + 20480, to, 64, 128, 2, 1, tcq | local, 256, 1,
                                     desc, &n));
    ADD(utofu_prepare_armw4(v, s->id, UTOFU_ARMW_OP_ADD, 1, to, 1, tcq | local, desc, &n));
    ADD(utofu_prepare_armw8(v, s->id, UTOFU_ARMW_OP_ADD, 1, to, 1, tcq | local, desc, &n));
    ADD(utofu_prepare_cswap4(v, s->id, 0, 1, to, 1, tcq | local, desc, &n));
    ADD(utofu_prepare_cswap8(v, s->id, 0, 1, to, 1, tcq | local, desc, &n));
    ADD(utofu_prepare_nop(v, tcq, desc, &n));
#undef ADD
    CALL(utofu_post_toq(v, room, used, s));
    take_tcq(s, 20);
    take_mrq(s, 10);
    free(room);
}

static void pass_barriers(void)
{
    struct utofu_vbg_setting setting = {
        .dst_path_coords = {UTOFU_PATH_COORD_NULL, UTOFU_PATH_COORD_NULL, UTOFU_PATH_COORD_NULL}};
    utofu_vbg_id_t gate;
    uint64_t word = 5;
    double number = 0.5;
    int rc;

    CALL(utofu_alloc_vbg(0, 1, 0, &gate));
    setting.vbg_id = setting.src_lcl_vbg_id = setting.dst_lcl_vbg_id = gate;
    setting.src_rmt_vbg_id = setting.dst_rmt_vbg_id = UTOFU_VBG_ID_NULL;
    CALL(utofu_set_vbg(&setting, 1));
    CALL(utofu_barrier(gate, 0));
    while ((rc = utofu_poll_barrier(gate, 0)) == UTOFU_ERR_NOT_COMPLETED)
        ;
    CALL(rc);
    CALL(utofu_reduce_uint64(gate, UTOFU_REDUCE_OP_SUM, &word, 1, 0));
    while ((rc = utofu_poll_reduce_uint64(gate, 0, &word)) == UTOFU_ERR_NOT_COMPLETED)
        ;
    CALL(rc);
    CALL(utofu_reduce_double(gate, UTOFU_REDUCE_OP_BFPSUM, &number, 1, 0));
    while ((rc = utofu_poll_reduce_double(gate, 0, &number)) == UTOFU_ERR_NOT_COMPLETED)
        ;
    CALL(rc);
    CALL(utofu_free_vbg(&gate, 1));
}

static void *run_side(void *side)
{
    struct side s = *(struct side *)side;

    if (utofu_profile_start)
        CALL(utofu_profile_start("all of it"));
    for (int i = 0; i < 3; i++) {
        start_all(&s);
        prepare_all(&s);
    }
    if (utofu_profile_seen)
        CALL(utofu_profile_seen(s.stadd, 8));
    if (utofu_profile_stop)
        CALL(utofu_profile_stop("all of it"));
    close_side(&s);
    return NULL;
}

static void run_wrong(void)
{
    struct side s;
    void *cbdata;

    open_side(&s, 0);
    CALL(utofu_put(s.vcq, s.id, s.stadd, s.stadd + SIZE / 2, 64, 0, tcq, NULL));
    s.memory[3]++; /* before the TCQ entry */
    take_tcq(&s, 1);
    CALL(utofu_put(s.vcq, s.id, s.stadd, s.stadd + SIZE / 2, 64, 0, tcq, NULL));
    CALL(utofu_dereg_mem(s.vcq, s.stadd, 0)); /* before it, too */
    take_tcq(&s, 1);
    for (int i = 0; i < 3; i++)
        if (utofu_poll_tcq(s.vcq + 12345, 0, &cbdata) != UTOFU_ERR_INVALID_VCQ_HDL)
            exit(1);
    CALL(utofu_free_vcq(s.vcq));
    free(s.memory);
}

static void hang(void)
{
    struct side s;

    open_side(&s, 0);
    CALL(utofu_put(s.vcq, s.id, s.stadd, s.stadd + 64, 8, 3, tcq | local, NULL));
    CALL(utofu_get(s.vcq, s.id, s.stadd + 128, s.stadd + 64, 16, 4, local, NULL));
    puts("waits");
    fflush(stdout);
    for (int i = 0; i < 100; i++)
        usleep(100000);
}

static void put_and_poll(struct side *s, long n)
{
    for (long i = 0; i < n; i++) {
        CALL(utofu_put(s->vcq, s->id, s->stadd + i % 512 * 8, s->stadd + SIZE / 2 + i % 1024 * 8, 8,
                       i & 0xff, tcq, NULL));
        take_tcq(s, 1);
    }
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void bench(long n)
{
    struct side s;
    void *cbdata;

    open_side(&s, 0);
    put_and_poll(&s, 1000);
    double begin = now_ns();
    for (long i = 0; i < n; i++)
        if (utofu_poll_tcq(s.vcq, 0, &cbdata) != UTOFU_ERR_NOT_FOUND)
            exit(1);
    printf("poll %.1f ns\n", (now_ns() - begin) / (double)n);
    begin = now_ns();
    put_and_poll(&s, n / 4);
    printf("put and poll %.1f ns\n", (now_ns() - begin) / (double)(n / 4));
    close_side(&s);
}

int main(int argc, char **argv)
{
    static struct side sides[2];
    const char *what = argc > 1 ? argv[1] : "";
    long n = argc > 2 ? atol(argv[2]) : 1000;
    pthread_t thread;
    struct side s;

    if (strcmp(what, "hang") == 0) {
        hang();
    } else if (strcmp(what, "wrong") == 0) {
        run_wrong();
    } else if (strcmp(what, "bench") == 0) {
        bench(n);
    } else if (strcmp(what, "long") == 0) {
        open_side(&s, 0);
        put_and_poll(&s, n);
        raise(SIGKILL);
    } else {
        pass_barriers();
        open_side(&sides[0], 0);
        open_side(&sides[1], 1);
        if (pthread_create(&thread, NULL, run_side, &sides[1]) != 0)
            return 1;
        run_side(&sides[0]);
        pthread_join(thread, NULL);
    }
    return 0;
}
