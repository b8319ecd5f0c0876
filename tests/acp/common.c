/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the layers share (layers/common): log lines, the job of a launcher's variables, the ring of
 * ranks, and what a port says of its operations and does with the notices of its TCQ.
 */
#include "../harness/fake_clock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utofu.h>
#include <utofu_ext.h>

#include "../harness/check.h"

#include "../../layers/common/port.h"
#include "../../layers/common/ring.h"

static char said[8192]; /* on standard error, by the last call */
static int pipe_ends[2], standard_error;
static const char *last_error = "the error";

void utofu_get_last_error(const char *text)
{
    CHECK(text[0] == '\0'); /* where there is none, it stays so */
    if (last_error)
        strcpy((char *)(uintptr_t)text, last_error);
}

static void listen(void)
{
    CHECK(pipe2(pipe_ends, O_NONBLOCK | O_CLOEXEC) == 0);
    standard_error = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
}

static void hear(void)
{
    ssize_t length = read(pipe_ends[0], said, sizeof(said) - 1);

    said[length > 0 ? length : 0] = '\0';
    dup2(standard_error, STDERR_FILENO);
    close(standard_error);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

#define SAID(call, text)                                                                           \
    do {                                                                                           \
        listen();                                                                                  \
        call;                                                                                      \
        hear();                                                                                    \
        CHECK(strcmp(said, text) == 0);                                                            \
    } while (0)

static void lines_are_written(void)
{
    static const wchar_t no_text[] = {0x7fffffff, 0};
    static char large[3000];
    char text[LC_ERROR_SIZE] = "before";

    SAID(lc_log("acp", 2, "%d and %s", 5, "more"), "acp: [rank 2] 5 and more\n");
    SAID(lc_log("acp", 0, "text"), "acp: [rank 0] text\n");
    SAID(lc_log("acp", -1, "text"), "acp: text\n");
    SAID(lc_log("acp", 1, "%s", ""), "acp: [rank 1] \n"); /* an empty one, too */
    SAID(lc_log("acp", 1, "%ls", no_text), "");           /* what cannot be written is not */
    memset(large, 'x', sizeof(large) - 1);
    listen();
    lc_log("acp", 1, "%s", large);
    hear();
    CHECK(strlen(said) == 2047 && said[2046] == '\n' && said[2045] == 'x');
    SAID(lc_check_rc("acp", 1, UTOFU_SUCCESS, "utofu_call"), "");
    SAID(lc_check_rc("acp", 1, UTOFU_ERR_FULL, "utofu_call"),
         "acp: [rank 1] utofu_call: the error\n");
    CHECK(lc_get_last_error(text) == text && strcmp(text, "the error") == 0);
    last_error = NULL;
    CHECK(lc_get_last_error(text) == text && text[0] == '\0');
}

/* The first launcher that says both numbers, which fit each other; or alone. */
static void launchers_are_asked(void)
{
    static const struct {
        const char *rank, *procs, *pmi_rank, *pmi_procs;
        uint32_t wanted_rank, wanted_procs, partners;
    } cases[] = {{"3", "5", NULL, NULL, 3, 5, 3},
                 {"0", "1", NULL, NULL, 0, 1, 0},
                 {"5", "5", NULL, NULL, 0, 1, 0},
                 {"4", "5", "1", "2", 4, 5, 3},
                 {"7", "5", "1", "2", 1, 2, 1},
                 {"3", NULL, "1", "2", 1, 2, 1},
                 {"3", NULL, NULL, NULL, 0, 1, 0},
                 {"-1", "5", NULL, NULL, 0, 1, 0},
                 {"1x", "5", NULL, NULL, 0, 1, 0},
                 {"/", "5", NULL, NULL, 0, 1, 0},
                 {"0", "2147483647", NULL, NULL, 0, 2147483647, 31},
                 {"0", "2147483648", NULL, NULL, 0, 1, 0}};
    static const char *const names[] = {"UTOFU_RANK", "UTOFU_SIZE", "PMI_RANK", "PMI_SIZE"};
    static const char *const others[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                         "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"};

    for (size_t i = 0; i < 4; i++)
        unsetenv(others[i]);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const values[] = {cases[i].rank, cases[i].procs, cases[i].pmi_rank,
                                      cases[i].pmi_procs};
        struct lc_job job;

        memset(&job, 0x5a, sizeof(job));
        for (int k = 0; k < 4; k++)
            if (values[k])
                setenv(names[k], values[k], 1);
            else
                unsetenv(names[k]);
        lc_job_init(&job, "acp", "rank");
        CHECK(job.launch_rank == cases[i].wanted_rank && job.procs == cases[i].wanted_procs);
        CHECK(job.rank == job.launch_rank && job.log_rank == (int)job.launch_rank);
        CHECK(job.num_partners == cases[i].partners && strcmp(job.layer, "acp") == 0 &&
              strcmp(job.process, "rank") == 0);
    }
    setenv("UTOFU_PEER_TIMEOUT", "10", 1);
    CHECK(lc_finalize_timeout_ns() == 12000000000ull);
    setenv("UTOFU_PEER_TIMEOUT", "0", 1);
    CHECK(lc_finalize_timeout_ns() == 32000000000ull);
    uint64_t now = lc_now_ns();
    fake_clock_pass_ms(2000);
    CHECK(lc_now_ns() - now >= 2000000000 && lc_now_ns() - now < 2001000000);
}

static void ranks_form_a_ring(void)
{
    for (uint32_t procs = 1; procs < 20; procs++)
        for (uint32_t rank = 0; rank < procs; rank++) {
            for (uint32_t k = 0; k < lc_num_partners(procs); k++) {
                CHECK(lc_rank_ahead(rank, procs, k) == (rank + (1u << k)) % procs);
                CHECK(lc_rank_behind(lc_rank_ahead(rank, procs, k), procs, k) == rank);
            }
            for (uint32_t to = 0; to < procs; to++) {
                uint32_t distance = (to + procs - rank) % procs, k;
                if (to == rank)
                    continue;
                k = lc_partner_towards(rank, to, procs);
                CHECK(1u << k <= distance && distance < 2u << k && k < lc_num_partners(procs));
            }
        }
}

/*
 * A port
 */

enum { OPS = 3 };

static const struct lc_job one_job = {.layer = "acp", .process = "rank", .log_rank = 1};
static struct lc_port port;
static int num_ended, ended_rc, num_lost, num_others, tcq_rc;
static void *tcq_data, *other_data;

int utofu_poll_tcq(utofu_vcq_hdl_t vcq, unsigned long int flags, void **cbdata)
{
    CHECK(vcq == 9 && flags == 0);
    *cbdata = tcq_data;
    return tcq_rc;
}

static void lose(uint32_t rank)
{
    CHECK(rank == 4);
    num_lost++;
}

static void see_other(void *cbdata)
{
    other_data = cbdata;
    num_others++;
}

static void see_end(struct lc_op *op, int rc, uint64_t old_value)
{
    CHECK(op == &port.ops[0] && old_value == 0 && op->busy);
    ended_rc = rc;
    num_ended++;
}

static struct lc_port_config port_config = {
    .job = &one_job, .num_ops = OPS, .peer_lost = lose, .handle_tcq_notice = see_other};

static void make_port(int num_busy)
{
    memset(&port, 0, sizeof(port));
    port.config = &port_config;
    port.vcq = 9;
    for (uint8_t i = 0; i <= OPS; i++) /* the last one is no longer one of them */
        port.ops[i] = (struct lc_op){.port = &port, .index = i, .busy = i == OPS};
    for (int i = 0; i < OPS; i++)
        port.free_ops[port.num_free++] = (uint8_t)(OPS - 1 - i);
    for (int i = 0; i < num_busy; i++)
        CHECK(lc_op_alloc(&port, 0, 4 + (uint32_t)i, see_end, NULL) == &port.ops[i]);
    num_ended = num_lost = num_others = 0;
}

static void operations_are_described(void)
{
    static const char *const texts[] = {"no communication is in flight that a notice ends",
                                        "one communication is in flight, with rank 4",
                                        "2 communications are in flight, one of them with rank 4",
                                        "3 communications are in flight, one of them with rank 4"};
    char text[LC_TEXT_SIZE];

    for (int busy = 0; busy <= OPS; busy++) {
        make_port(busy);
        CHECK(lc_port_describe(&port, text) == text && strcmp(text, texts[busy]) == 0);
        CHECK(!lc_op_alloc(&port, (uint32_t)(OPS - busy), 4, see_end, NULL));
    }
    make_port(OPS);
    lc_op_free(&port.ops[0]);
    lc_op_free(&port.ops[1]);
    CHECK(strcmp(lc_port_describe(&port, text), "one communication is in flight, with rank 6") ==
          0);
}

/* Errors in the TCQ end an operation; that something was sent does not. */
static void notices_of_the_tcq(void)
{
    static const struct {
        int rc;
        bool ends;
    } cases[] = {{UTOFU_SUCCESS, false},           {UTOFU_ERR_TCQ_OTHER, true},
                 {UTOFU_ERR_TCQ_OTHER + 1, false}, {UTOFU_ERR_TCQ_OTHER - 1, true},
                 {UTOFU_ERR_MRQ_OTHER + 1, true},  {UTOFU_ERR_MRQ_OTHER, false}};
    int elsewhere = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_port(1);
        tcq_data = &port.ops[0];
        tcq_rc = cases[i].rc;
        CHECK(lc_port_poll_tcq(&port) && num_ended == (int)cases[i].ends && num_others == 0);
        CHECK(port.ops[0].busy != cases[i].ends &&
              port.num_free == (cases[i].ends ? OPS : OPS - 1));
        CHECK(!cases[i].ends || ended_rc == cases[i].rc);
    }
    make_port(1);
    tcq_rc = UTOFU_ERR_NOT_FOUND;
    CHECK(!lc_port_poll_tcq(&port) && num_ended == 0);
    tcq_rc = UTOFU_SUCCESS;
    tcq_data = &elsewhere;
    CHECK(lc_port_poll_tcq(&port) && num_others == 1 && other_data == &elsewhere);
    tcq_data = NULL;
    CHECK(lc_port_poll_tcq(&port) && num_others == 1);
    tcq_data = (char *)port.ops + sizeof(port.ops); /* behind the last one */
    CHECK(lc_port_poll_tcq(&port) && num_others == 2 && num_ended == 0);
    port_config.handle_tcq_notice = NULL;
    CHECK(lc_port_poll_tcq(&port) && num_others == 2);
    port_config.handle_tcq_notice = see_other;
}

/* A start that fails ends its operation, which a lost process tells of; without room it is freed.
 */
static void starts_end(void)
{
    make_port(1);
    CHECK(lc_op_check_start(&port.ops[0], UTOFU_SUCCESS) && port.ops[0].busy && num_ended == 0);
    CHECK(!lc_op_check_start(&port.ops[0], UTOFU_ERR_BUSY) && !port.ops[0].busy);
    CHECK(num_ended == 0 && port.num_free == OPS);
    make_port(1);
    CHECK(lc_op_check_start(&port.ops[0], UTOFU_ERR_MRQ_PEER) && num_lost == 1 && num_ended == 1);
    CHECK(lc_op_check_start(&port.ops[0], UTOFU_ERR_MRQ_PEER) && num_lost == 1); /* ended already */
    CHECK(port.num_free == OPS);
    make_port(1);
    port.callbacks_off = true;
    CHECK(lc_op_check_start(&port.ops[0], UTOFU_ERR_MRQ_PEER) && num_lost + num_ended == 0);
    CHECK(port.num_free == OPS && !port.ops[0].busy);
}

int main(void)
{
    lines_are_written();
    launchers_are_asked();
    ranks_form_a_ring();
    operations_are_described();
    notices_of_the_tcq();
    starts_end();
    return 0;
}
