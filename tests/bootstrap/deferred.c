/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communications of a process continue without further calls: three processes under MPI. Rank 1
 * submits a communication to rank 2, to which it has no connection, and then rests: in MPI_Barrier,
 * in a sleep that only the others end, or in MPI_Finalize. Prints one line for each rank.
 *
 *   deferred KIND barrier|sleep|finalize FLAG
 *
 * FLAG names a file that does not exist: it appears when rank 2 has what it waits for.
 * UT_DEFERRED_WAIT: seconds that are waited for anything (20).
 *
 * Rank 1's first contact to rank 2 is made
 *   session      by a put that rank 0's put starts
 *   joined       by a prepared one, posted with utofu_post_toq, that rank 0's put starts
 *   gate         by a barrier gate that fires when rank 0's packet comes
 *   reconnect    by a put that rank 0's put starts, after rank 2 made its VCQ anew; before, rank 2
 *                had come to rank 1
 * or rank 2 calls the library for the first time when rank 1 rests already:
 *   late         a put
 *   late-delay   a put with DELAY_START, and a NOP behind it
 *   late-posted  a prepared put
 *   late-armw    an ARMW, whose answer comes back too
 *   late-session a put that rank 0's put starts before rank 2 is there
 *   never        nobody calls the library in rank 2: UTOFU_ERR_MRQ_PEER, and a warning before
 * or the launcher's socket cannot be shared, so that rank 2 cannot be looked up for
 *   unshared     a put that rank 0's put starts: UTOFU_ERR_MRQ_PEER, and a warning before
 * or MPI itself asks the launcher, which it shares with the library:
 *   launcher     MPI_Publish_name, MPI_Lookup_name
 *   abort        MPI_Abort with status 3
 */
#include <errno.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "utofu.h"

enum { STAG = 7, VALUE = 4711, SESSION_CMP = 5, FREE_CMP = 3 };

static const char *kind, *where, *flag;
static int rank, wait_s = 20;
static volatile uint64_t *mem;

static struct end {
    utofu_vcq_hdl_t hdl;
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
} vcq, session;

static void fail(const char *what, long long n)
{
    printf("FAIL %s %s: rank %d: %s (%lld)\n", kind, where, rank, what, n);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void ok(const char *what, int rc)
{
    if (rc != UTOFU_SUCCESS)
        fail(what, rc);
}

static int kind_is(const char *name)
{
    return strcmp(kind, name) == 0;
}

static int is_where(const char *name)
{
    return strcmp(where, name) == 0;
}

static int is_late(void)
{
    return strncmp(kind, "late", 4) == 0 || kind_is("never");
}

/* Others have already started communications to this process. */
static int is_awaited(void)
{
    return is_late() && rank == 2;
}

/* Communications to a VCQ whose memory is not registered yet fail. So only the polls of this
 * process, which come later, may answer the connection request that waits for the VCQ. */
static void await_calls(void)
{
    setenv("UTOFU_PROGRESS_THREAD", "0", 1);
}

static void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static int timeout_ms(void)
{
    return 1000 * atoi(getenv("UTOFU_JOB_TIMEOUT"));
}

/* Replaces libc's function. */
__attribute__((visibility("default"))) int socketpair(int domain, int type, int protocol,
                                                      int ends[2])
{
    if (kind && kind_is("unshared")) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_socketpair, domain, type, protocol, ends);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Returns only after the others' signal. */
static void rest(void)
{
    double end = now() + wait_s + 5;

    if (is_where("finalize")) {
        MPI_Finalize();
        return;
    }
    if (is_where("barrier")) {
        MPI_Barrier(MPI_COMM_WORLD);
        return;
    }
    while (access(flag, F_OK) != 0) {
        if (now() > end)
            fail("slept too long", wait_s);
        nap(20);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void raise_flag(void)
{
    FILE *f = fopen(flag, "w");

    if (!f || fclose(f) != 0)
        fail("cannot write the flag", 0);
}

static void register_at(struct end *end)
{
    ok("reg_mem_with_stag",
       utofu_reg_mem_with_stag(end->hdl, (void *)mem, 4096, STAG, 0, &end->stadd));
}

/* The free-mode VCQ has an id that others can compute. */
static void open_free(void)
{
    ok("create_vcq", utofu_create_vcq_with_cmp_id(0, FREE_CMP, 0, &vcq.hdl));
    ok("query_vcq_id", utofu_query_vcq_id(vcq.hdl, &vcq.id));
    if (is_awaited())
        nap(50); /* as on a busy machine: see await_calls() */
    register_at(&vcq);
}

static void open_session(void)
{
    ok("create session", utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &session.hdl));
    ok("query_vcq_id", utofu_query_vcq_id(session.hdl, &session.id));
    register_at(&session);
}

/* The address of another rank's free-mode VCQ, without asking that rank. */
static struct end work_out(int other)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;
    size_t num_cqs = 3; /* per process, if a node has three */
    struct end end = {0};

    ok("query_vcq_info", utofu_query_vcq_info(vcq.id, coords, &tni, &cq, &extra));
    ok("construct", utofu_construct_vcq_id(
                        coords, tni, (utofu_cq_id_t)(cq + (unsigned int)(other - rank) * num_cqs),
                        FREE_CMP, &end.id));
    ok("query_stadd", utofu_query_stadd(end.id, STAG, &end.stadd));
    return end;
}

static utofu_stadd_t at(const struct end *end, int word)
{
    return end->stadd + 8u * (unsigned int)word;
}

static void poll_all(void)
{
    struct utofu_mrq_notice notice;
    void *cbdata;
    int rc = utofu_poll_mrq(vcq.hdl, 0, &notice);

    if (rc != UTOFU_SUCCESS && rc != UTOFU_ERR_NOT_FOUND)
        fail("poll_mrq", rc);
    rc = utofu_poll_tcq(vcq.hdl, 0, &cbdata);
    if (rc != UTOFU_SUCCESS && rc != UTOFU_ERR_NOT_FOUND)
        fail("poll_tcq", rc);
}

static void wait_for_word(int word)
{
    double end = now() + wait_s;

    while (mem[word] != VALUE) {
        poll_all();
        if (now() > end)
            fail("waits for what rank 1 handed over", word);
    }
}

static int wait_for_mrq(utofu_vcq_hdl_t hdl, struct utofu_mrq_notice *notice)
{
    double end = now() + wait_s;
    int rc;

    while ((rc = utofu_poll_mrq(hdl, 0, notice)) == UTOFU_ERR_NOT_FOUND && now() < end)
        nap(1);
    return rc;
}

static void put_and_wait(const struct end *to, int word, unsigned long flags)
{
    struct utofu_mrq_notice notice;

    mem[word] = VALUE;
    ok("put", utofu_put(vcq.hdl, to->id, at(&vcq, word), at(to, word), 8, 0,
                        flags | UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    ok("its end", wait_for_mrq(vcq.hdl, &notice));
}

/* Rank 1 has submitted the communication and rests, or is about to. */
static void say_handed_over(void)
{
    for (int other = 0; other < 3; other += 2)
        MPI_Send(&rank, 1, MPI_INT, other, 1, MPI_COMM_WORLD);
}

static void until_handed_over(int pause_ms)
{
    int who;

    MPI_Recv(&who, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    nap(pause_ms);
}

/* ---- puts that a put of rank 0 starts ---- */

/* The targets of rank 0 and rank 1. */
static void exchange(struct end *first, struct end *second)
{
    struct end mine[2] = {vcq, session}, all[6];

    MPI_Allgather(mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
    *first = all[2 * 1 + 1];
    *second = all[2 * 2];
}

static void hand_over_session(const struct end *to, int prepared)
{
    uint64_t desc[16];
    size_t size;
    unsigned long flags = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE;

    if (!prepared) {
        ok("session put",
           utofu_put(session.hdl, to->id, at(&session, 0), at(to, 0), 8, 0, flags, NULL));
        return;
    }
    ok("prepare", utofu_prepare_put(session.hdl, to->id, at(&session, 0), at(to, 0), 8, 0, flags,
                                    desc, &size));
    ok("post_toq", utofu_post_toq(session.hdl, desc, size, NULL));
}

static void expect_peer_error(utofu_vcq_hdl_t hdl)
{
    struct utofu_mrq_notice notice;
    int rc = wait_for_mrq(hdl, &notice);

    if (rc != UTOFU_ERR_MRQ_PEER)
        fail("no UTOFU_ERR_MRQ_PEER", rc);
}

static void run_session(int prepared)
{
    struct end first, second;

    if (rank == 1)
        open_session();
    exchange(&first, &second);
    if (rank == 1) {
        hand_over_session(&second, prepared);
        say_handed_over();
        rest();
        if (kind_is("unshared"))
            expect_peer_error(session.hdl);
        return;
    }
    until_handed_over(100);
    if (rank == 0)
        put_and_wait(&first, 0, UTOFU_ONESIDED_FLAG_SPS(1));
    else if (kind_is("unshared"))
        nap(timeout_ms() + 1500);
    else
        wait_for_word(0);
}

static void run_reconnect(void)
{
    struct end first, second;

    if (rank == 1)
        open_session();
    exchange(&first, &second);
    if (rank == 2) { /* makes rank 1's first connection, and removes it */
        put_and_wait(&first, 1, 0);
        ok("dereg", utofu_dereg_mem(vcq.hdl, vcq.stadd, 0));
        ok("free", utofu_free_vcq(vcq.hdl));
        open_free();
    }
    exchange(&first, &second);
    if (rank == 1) {
        hand_over_session(&second, 0);
        say_handed_over();
        rest();
        return;
    }
    until_handed_over(100);
    if (rank == 0)
        put_and_wait(&first, 0, UTOFU_ONESIDED_FLAG_SPS(1));
    else
        wait_for_word(0);
}

/* ---- gates ---- */

static utofu_vbg_id_t none = UTOFU_VBG_ID_NULL;

static struct utofu_vbg_setting gate(utofu_vbg_id_t id, utofu_vbg_id_t src_lcl,
                                     utofu_vbg_id_t src_rmt, utofu_vbg_id_t dst_lcl,
                                     utofu_vbg_id_t dst_rmt)
{
    return (struct utofu_vbg_setting){.vbg_id = id,
                                      .src_lcl_vbg_id = src_lcl,
                                      .src_rmt_vbg_id = src_rmt,
                                      .dst_lcl_vbg_id = dst_lcl,
                                      .dst_rmt_vbg_id = dst_rmt,
                                      .dst_path_coords = {UTOFU_PATH_COORD_NULL}};
}

/* In a ring: start 0, relay 1, relay 2, relay 0, and from there to start 1. So rank 1 only sends to
 * rank 2 and receives from rank 0. */
static void wire(utofu_vbg_id_t s[3], utofu_vbg_id_t r[3])
{
    struct utofu_vbg_setting of[3][2] = {
        {gate(s[0], r[0], none, none, r[1]), gate(r[0], none, r[2], s[0], s[1])},
        {gate(s[1], none, r[0], r[1], none), gate(r[1], s[1], s[0], none, r[2])},
        {gate(s[2], r[2], none, r[2], none), gate(r[2], s[2], r[1], s[2], r[0])},
    };

    ok("set_vbg", utofu_set_vbg(of[rank], 2));
}

static void finish_barrier(utofu_vbg_id_t start)
{
    double end = now() + wait_s;
    int rc;

    while ((rc = utofu_poll_barrier(start, 0)) == UTOFU_ERR_NOT_COMPLETED) {
        if (now() > end)
            fail("waits for the barrier", rank);
    }
    ok("poll_barrier", rc);
}

static void run_gate(void)
{
    utofu_vbg_id_t mine[2], all[6], s[3], r[3];

    ok("alloc_vbg", utofu_alloc_vbg(0, 2, 0, mine));
    MPI_Allgather(mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) {
        s[i] = all[2 * i];
        r[i] = all[2 * i + 1];
    }
    if (rank == 1) {
        wire(s, r);
        ok("barrier", utofu_barrier(s[1], 0));
        say_handed_over();
        rest();
        finish_barrier(s[1]);
        return;
    }
    until_handed_over(100);
    wire(s, r);
    ok("barrier", utofu_barrier(s[rank], 0));
    finish_barrier(s[rank]);
}

/* ---- to a process that has not called the library ---- */

static void hand_over_late(const struct end *to)
{
    unsigned long flags = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    uint64_t desc[16];
    size_t size;

    if (kind_is("late-session")) {
        hand_over_session(to, 0);
    } else if (kind_is("late-armw")) {
        ok("armw",
           utofu_armw8(vcq.hdl, to->id, UTOFU_ARMW_OP_ADD, VALUE, at(to, 0), 0, flags, NULL));
    } else if (kind_is("late-posted")) {
        ok("prepare",
           utofu_prepare_put(vcq.hdl, to->id, at(&vcq, 0), at(to, 0), 8, 0, flags, desc, &size));
        ok("post_toq", utofu_post_toq(vcq.hdl, desc, size, NULL));
    } else {
        if (kind_is("late-delay"))
            flags |= UTOFU_ONESIDED_FLAG_DELAY_START;
        ok("put", utofu_put(vcq.hdl, to->id, at(&vcq, 0), at(to, 0), 8, 0, flags, NULL));
        if (kind_is("late-delay"))
            ok("nop", utofu_nop(vcq.hdl, 0, NULL));
    }
}

static void check_end_of_late(void)
{
    struct utofu_mrq_notice notice;
    void *cbdata;

    if (kind_is("late-session")) {
        int rc = utofu_poll_mrq(session.hdl, 0, &notice);
        if (rc == UTOFU_SUCCESS)
            rc = utofu_poll_tcq(session.hdl, 0, &cbdata);
        if (rc != UTOFU_SUCCESS && rc != UTOFU_ERR_NOT_FOUND)
            fail("session VCQ", rc);
        return;
    }
    int rc = wait_for_mrq(vcq.hdl, &notice);
    if (kind_is("never") ? rc != UTOFU_ERR_MRQ_PEER : rc != UTOFU_SUCCESS)
        fail("local notice", rc);
    if (kind_is("late-armw") &&
        (notice.rmt_value != 0 || notice.notice_type != UTOFU_MRQ_TYPE_LCL_ARMW))
        fail("answer of the ARMW", (long long)notice.rmt_value);
}

static void run_late(void)
{
    struct end to = {0}, first = {0};

    if (rank == 1) {
        to = work_out(2);
        if (kind_is("late-session"))
            open_session();
        mem[0] = VALUE;
        MPI_Send(&session, sizeof(session), MPI_BYTE, 0, 2, MPI_COMM_WORLD);
        hand_over_late(&to);
        say_handed_over();
        rest();
        check_end_of_late();
        return;
    }
    if (rank == 0) {
        MPI_Recv(&first, sizeof(first), MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        until_handed_over(100);
        if (kind_is("late-session"))
            put_and_wait(&first, 0, UTOFU_ONESIDED_FLAG_SPS(1));
        return;
    }
    until_handed_over(400);
    if (kind_is("never")) {
        nap(timeout_ms() + 500);
        return;
    }
    open_free();
    wait_for_word(0);
}

/* ---- MPI and the launcher ---- */

static void run_launcher(void)
{
    char port[MPI_MAX_PORT_NAME] = "somewhere", found[MPI_MAX_PORT_NAME] = "";

    if (rank == 0)
        MPI_Publish_name("utofu.test", MPI_INFO_NULL, port);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Lookup_name("utofu.test", MPI_INFO_NULL, found);
    if (strcmp(port, found) != 0)
        fail("MPI_Lookup_name", rank);
    run_session(0);
}

static void run_abort(void)
{
    printf("rank %d before the end\n", rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 3);
    rest();
}

int main(int argc, char **argv)
{
    const char *seconds = getenv("UT_DEFERRED_WAIT");

    if (argc != 4)
        return 2;
    kind = argv[1];
    where = argv[2];
    flag = argv[3];
    if (seconds)
        wait_s = atoi(seconds);
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    mem = aligned_alloc(4096, 4096);
    if (!mem)
        return 3;
    memset((void *)mem, 0, 4096);
    if (is_awaited())
        await_calls();
    if (rank != 2 || !is_late())
        open_free();
    if (is_late())
        run_late();
    else if (kind_is("gate"))
        run_gate();
    else if (kind_is("launcher"))
        run_launcher();
    else if (kind_is("abort"))
        run_abort();
    else if (kind_is("reconnect"))
        run_reconnect();
    else
        run_session(kind_is("joined"));
    if (rank == 2)
        raise_flag();
    if (rank != 1 && !is_where("finalize"))
        MPI_Barrier(MPI_COMM_WORLD);
    printf("%s %s: rank %d ok\n", kind, where, rank);
    if (rank != 1 || !is_where("finalize"))
        MPI_Finalize();
    return 0;
}
