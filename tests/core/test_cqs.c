/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of CQs with UTOFU_CQ_MAP=fugaku, against the table that programs calculate with. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/layout.h"
#include "process/cqs.h"
#include "util/env.h"
#include "util/log.h"

enum { MOST = 48 };

/* The TNI and the number of the first CQ of local rank n, where nodes have ppn processes: one row
 * of that table after the other. */
static void look_up(unsigned int ppn, unsigned int n, unsigned int *tni, unsigned int *number)
{
    static const unsigned int four[] = {0, 2, 5, 8}, five[] = {0, 2, 5, 8, 10},
                              six[] = {0, 2, 5, 8, 9, 10}, seven[] = {0, 2, 5, 6, 8, 9, 10},
                              eight[] = {0, 2, 4, 5, 6, 8, 9, 10};

    if (ppn == 1)
        *tni = n, *number = 0;
    else if (ppn == 2)
        *tni = n, *number = 6 * n;
    else if (ppn == 3)
        *tni = n, *number = 4 * n;
    else if (ppn == 4)
        *tni = n, *number = four[n];
    else if (ppn <= 8)
        *tni = n % 2 * 3, *number = four[n / 2];
    else if (ppn <= 12)
        *tni = n % 3 * 2, *number = four[n / 3];
    else if (ppn <= 24)
        *tni = n % 6, *number = four[n / 6];
    else if (ppn <= 30)
        *tni = n % 6, *number = five[n / 6];
    else if (ppn <= 36)
        *tni = n % 6, *number = six[n / 6];
    else if (ppn <= 42)
        *tni = n % 6, *number = seven[n / 6];
    else
        *tni = n % 6, *number = eight[n / 6];
}

static struct ut_process make_process(unsigned int most)
{
    return (struct ut_process){.fugaku_cqs = true,
                               .most_local = most,
                               .num_cqs = most == 1   ? 9
                                          : most == 2 ? 4
                                                      : 3};
}

Test(cqs, first_cqs_have_the_numbers_of_fugaku)
{
    for (unsigned int ppn = 1; ppn <= MOST; ppn++) {
        struct ut_process process = make_process(ppn);
        for (unsigned int n = 0; n < ppn; n++) {
            unsigned int tni, number;
            look_up(ppn, n, &tni, &number);
            cr_assert_eq(ut_cq_number(&process, tni, n * process.num_cqs), number,
                         "local rank %u of %u", n, ppn);
            cr_assert_eq(ut_cq_of_number(&process, tni, number), n * process.num_cqs,
                         "local rank %u of %u", n, ppn);
        }
    }
}

Test(cqs, up_to_four_processes_have_their_number_on_every_tni)
{
    for (unsigned int ppn = 1; ppn <= 4; ppn++) {
        struct ut_process process = make_process(ppn);
        for (unsigned int n = 0; n < ppn; n++) {
            unsigned int primary, number;
            look_up(ppn, n, &primary, &number);
            for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++)
                cr_assert_eq(ut_cq_number(&process, tni, n * process.num_cqs), number);
        }
    }
}

Test(cqs, a_number_belongs_to_one_cq)
{
    for (unsigned int ppn = 1; ppn <= MOST; ppn++) {
        struct ut_process process = make_process(ppn);
        unsigned int cqs = ppn * process.num_cqs;
        for (unsigned int tni = 0; tni < UT_NUM_TNIS; tni++) {
            unsigned int found = 0;
            for (unsigned int id = 0; id < cqs; id++)
                cr_assert_eq(ut_cq_of_number(&process, tni, ut_cq_number(&process, tni, id)), id,
                             "CQ %u of %u processes, TNI %u", id, ppn, tni);
            for (unsigned int number = 0; number < 12 + cqs; number++)
                found += ut_cq_of_number(&process, tni, number) >= 0;
            cr_assert_eq(found, cqs, "%u of %u, %u processes", found, cqs, ppn);
            for (unsigned int id = cqs; id < 2 * cqs; id++)
                cr_assert_eq(ut_cq_number(&process, tni, id), 12 + id, "of nobody");
        }
    }
}

Test(cqs, without_the_map_numbers_are_ids)
{
    struct ut_process process = {.num_cqs = 3};

    for (unsigned int id = 0; id <= UT_MAX_CQ_ID; id++) {
        cr_assert_eq(ut_cq_number(&process, id % UT_NUM_TNIS, id), id);
        cr_assert_eq(ut_cq_of_number(&process, id % UT_NUM_TNIS, id), id);
    }
}

/* What a launcher does: 1 to 4 blocks of nodes, repeated, not all of them full. */
static void choose_layout(struct ut_job_layout *layout)
{
    char text[200] = "(vector";
    unsigned int first = 0, blocks = 1 + (unsigned int)rand() % 4;
    unsigned int size = 1 + (unsigned int)rand() % 200;

    for (unsigned int i = 0; i < blocks; i++) {
        unsigned int nodes = 1 + (unsigned int)rand() % 5, each = 1 + (unsigned int)rand() % 12;
        sprintf(text + strlen(text), ",(%u,%u,%u)", first, nodes, each);
        first += nodes;
    }
    strcat(text, ")");
    cr_assert_eq(ut_job_layout_parse(layout, text, size), 0, "%s", text);
}

static unsigned int count_most(const struct ut_job_layout *layout)
{
    unsigned int most = 1;
    struct ut_job_place place;

    for (uint32_t rank = 0; rank < layout->size; rank++) {
        cr_assert_eq(ut_job_layout_place(layout, rank, &place), 0);
        most = place.local_size > most ? place.local_size : most;
    }
    return most;
}

/* From rank to TNI and CQ by the table, and back to the rank by the library. */
Test(cqs, calculated_owners_are_found_in_1000_layouts)
{
    static struct ut_job_layout layout;
    unsigned int tried = 0;

    srand(39);
    while (tried < 1000) {
        choose_layout(&layout);
        unsigned int most = count_most(&layout);
        if (most > MOST)
            continue;
        struct ut_process process = make_process(most);
        for (uint32_t rank = 0; rank < layout.size; rank++) {
            struct ut_job_place place;
            unsigned int tni, number;
            ut_job_layout_place(&layout, rank, &place);
            look_up(most, place.local_rank, &tni, &number);
            int32_t cq = ut_cq_of_number(&process, tni, number);
            cr_assert_geq(cq, 0);
            cr_assert_eq(ut_job_layout_rank_at(&layout, place.node, (uint32_t)cq / process.num_cqs),
                         rank, "rank %u of %u, local rank %u of %u", rank, layout.size,
                         place.local_rank, most);
        }
        tried++;
    }
}

/*
 * UTOFU_CQ_MAP and the CQs of a process
 */

struct map {
    const char *map, *exclusive, *session;
    uint32_t local_rank, local_size;
    const char *result;
};

/* With the map of Fugaku: the maximum of any node, and its share of the gates. */
static uint32_t most_of_any_node, gates_for;

uint32_t __wrap_ut_job_max_per_node(void);
uint32_t __wrap_ut_job_max_per_node(void)
{
    return most_of_any_node;
}

void __wrap_ut_vbg_id_share_gates(unsigned int processes);
void __wrap_ut_vbg_id_share_gates(unsigned int processes)
{
    gates_for = processes;
}

/* In a process of its own: the CQs, and how many are reserved; or the line of the refusal. */
static void print_cqs(const struct map *m)
{
    struct ut_job_info job = {.local_rank = m->local_rank, .local_size = m->local_size};
    struct ut_process process = {.job = &job, .num_cqs = 5};

    most_of_any_node = m->local_size;
    if (*m->map)
        setenv("UTOFU_CQ_MAP", m->map, 1);
    setenv("UTOFU_NUM_EXCLUSIVE_CQS", m->exclusive, 1);
    setenv("UTOFU_NUM_SESSION_MODE_CQS", m->session, 1);
    ut_env_load();
    ut_log_init();
    if (ut_cqs_alloc(&process) != 0)
        return;
    ut_cqs_reserve(&process);
    for (unsigned int i = 0; i < process.num_cqs; i++)
        printf("%u ", process.cq_ids[i]);
    printf("%u %u", process.num_exclusive, process.num_session);
    if (process.fugaku_cqs || gates_for > 0)
        printf(" fugaku %u %u", process.most_local, gates_for);
}

static const char *cqs_of(const struct map *m)
{
    static char text[1000];
    FILE *out = tmpfile();

    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        dup2(fileno(out), STDERR_FILENO);
        print_cqs(m);
        fflush(stdout);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, NULL, 0), child);
    rewind(out);
    text[fread(text, 1, sizeof(text) - 1, out)] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(out);
    return text;
}

#define REFUSED "utofu: error: [rank ?, process] UTOFU_CQ_MAP="
#define NO_LIST(map, local_rank)                                                                   \
    REFUSED map " has no list of CQ ids (0 to 4095, at most 16) for local rank " local_rank        \
                "; give one list a,b,c per local rank, separated by /"

Test(cqs, of_a_process_follow_from_the_map)
{
    static const struct map maps[] = {
        {"", "0", "0", 0, 1, "0 1 2 3 4 5 6 7 8 0 0"},
        {"", "0", "0", 1, 2, "4 5 6 7 0 0"},
        {"", "0", "0", 2, 3, "6 7 8 0 0"},
        {"auto", "1", "1", 0, 2, "0 1 2 3 1 1"},
        {"auto", "9", "1", 0, 2, "0 1 2 3 3 0"},
        {"auto", "2", "9", 0, 2, "0 1 2 3 2 1"},
        {"stride:1", "1", "1", 5, 6, "5 0 0"},
        {"stride:16", "0", "0", 1, 2, "16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 0 0"},
        {"stride:0", "0", "0", 1, 2, REFUSED "stride:0: the stride is a number from 1 to 16"},
        {"stride:17", "0", "0", 1, 2, REFUSED "stride:17: the stride is a number from 1 to 16"},
        {"stride:2x", "0", "0", 1, 2, REFUSED "stride:2x: the stride is a number from 1 to 16"},
        {"stride:16", "0", "0", 255, 256,
         "4080 4081 4082 4083 4084 4085 4086 4087 4088 4089 4090 4091 4092 4093 4094 4095 0 0"},
        {"stride:16", "0", "0", 256, 257,
         "utofu: error: [rank ?, process] local rank 256 is too many for 16 CQs each (CQ ids end "
         "at 4095)"},
        {"stride:1", "0", "0", 4095, 4096, "4095 0 0"},
        {"stride:1", "0", "0", 4096, 4097,
         "utofu: error: [rank ?, process] local rank 4096 is too many for 1 CQs each (CQ ids end "
         "at 4095)"},
        {"fugaku", "0", "0", 0, 1, "0 1 2 3 4 5 6 7 8 0 0 fugaku 1 1"},
        {"fugaku", "0", "0", 1, 2, "4 5 6 7 0 0 fugaku 2 2"},
        {"fugaku", "0", "0", 47, 48, "141 142 143 0 0 fugaku 48 48"},
        {"fugaku", "0", "0", 0, 49,
         REFUSED "fugaku is for at most 48 processes on a node, and this job has 49; use auto"},
        {":", "0", "0", 0, 1, REFUSED ":: use auto, fugaku, stride:N or lists of CQ ids"},
        {"/1", "0", "0", 1, 2, REFUSED "/1: use auto, fugaku, stride:N or lists of CQ ids"},
        {"nonsense", "0", "0", 0, 1,
         REFUSED "nonsense: use auto, fugaku, stride:N or lists of CQ ids"},
        {"7", "0", "0", 0, 1, "7 0 0"},
        {"9", "0", "0", 0, 1, "9 0 0"},
        {"7,9/4095,0", "0", "0", 1, 2, "4095 0 0 0"},
        {"7,9/4095,0", "0", "0", 0, 2, "7 9 0 0"},
        {"7,9/4096", "0", "0", 1, 2, NO_LIST("7,9/4096", "1")},
        {"7,9", "0", "0", 1, 2, NO_LIST("7,9", "1")},
        {"7,9x", "0", "0", 0, 2, NO_LIST("7,9x", "0")},
        {"7,", "0", "0", 0, 2, NO_LIST("7,", "0")},
        {"7,/8", "0", "0", 0, 2, NO_LIST("7,/8", "0")},
        {"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", "0", "0", 0, 1,
         "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 0 0"},
        {"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "0", "0", 0, 1,
         NO_LIST("0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "0")},
        {"1,2/2", "0", "0", 1, 2,
         REFUSED "1,2/2 gives CQ 2 more than once; each may be in one list"},
        {"1,2,1", "0", "0", 0, 2,
         REFUSED "1,2,1 gives CQ 1 more than once; each may be in one list"},
        {"1,2/3,3", "0", "0", 0, 2, "1 2 0 0"},
    };

    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
        const char *got = cqs_of(&maps[i]);
        cr_expect_str_eq(got, maps[i].result, "%s, local rank %u: %s", maps[i].map,
                         maps[i].local_rank, got);
    }
}
