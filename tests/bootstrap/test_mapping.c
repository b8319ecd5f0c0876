/* SPDX-License-Identifier: Apache-2.0 */
/* The pure functions of src/bootstrap: layouts, PMI-1 text, UTOFU_ROOT, wire headers. */
#include "bootstrap/channel.h"
#include "bootstrap/layout.h"
#include "bootstrap/pmi1_text.h"
#include "bootstrap/root.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct ut_job_layout layout;

/* Places every rank the slow way and compares. */
static void check_against_placing_one_by_one(uint32_t size, const struct ut_job_block *blocks,
                                             uint32_t num_blocks)
{
    enum { MAX = 64 };
    uint32_t node_of[MAX], local[MAX], count[MAX] = {0}, rank = 0, end = 0;

    while (rank < size) {
        for (uint32_t b = 0; b < num_blocks; b++)
            for (uint32_t n = 0; n < blocks[b].nodes; n++)
                for (uint32_t i = 0; i < blocks[b].each && rank < size; i++, rank++) {
                    node_of[rank] = blocks[b].first + n;
                    local[rank] = count[node_of[rank]]++;
                    if (node_of[rank] >= end)
                        end = node_of[rank] + 1;
                }
    }
    for (rank = 0; rank < size; rank++) {
        struct ut_job_place place;
        cr_assert_eq(ut_job_layout_place(&layout, rank, &place), 0);
        cr_assert_eq(place.node, node_of[rank], "rank %u: node %u, not %u", rank, place.node,
                     node_of[rank]);
        cr_assert_eq(place.local_rank, local[rank]);
        cr_assert_eq(place.local_size, count[node_of[rank]]);
        cr_assert_eq(place.num_nodes, end);
        cr_assert_eq(ut_job_layout_rank_at(&layout, place.node, place.local_rank), rank);
    }
    for (uint32_t n = 0; n < end + 2 && n < MAX; n++)
        cr_assert_eq(ut_job_layout_rank_at(&layout, n, count[n]), -ENOENT);
}

static void check(const char *text, uint32_t size)
{
    cr_assert_eq(ut_job_layout_parse(&layout, text, size), 0, "%s", text);
    check_against_placing_one_by_one(size, layout.blocks, layout.num_blocks);
}

Test(layout, mapping_of_one_block)
{
    check("(vector,(0,1,4))", 4);
    check("(vector,(0,2,2))", 4);
    check(" ( vector , ( 0 , 2 , 2 ) ) ", 4);
}

Test(layout, mapping_starts_over_when_ranks_are_left)
{
    check("(vector,(0,2,2))", 5);
    check("(vector,(0,3,1))", 8);
    check("(vector,(0,2,2))", 13);
}

Test(layout, mapping_longer_than_the_job)
{
    check("(vector,(0,4,8))", 11);
    check("(vector,(0,2,2),(2,4,1))", 3);
}

Test(layout, mapping_that_returns_to_a_node)
{
    check("(vector,(0,1,2),(1,1,3),(0,1,1))", 6);
    check("(vector,(0,1,2),(1,2,3),(0,2,1))", 23);
}

/* The first text is placed as the second. */
static void check_same(const char *text, const char *other, uint32_t size)
{
    static struct ut_job_layout same;

    cr_assert_eq(ut_job_layout_parse(&same, other, size), 0, "%s", other);
    cr_assert_eq(ut_job_layout_parse(&layout, text, size), 0, "%s", text);
    check_against_placing_one_by_one(size, same.blocks, same.num_blocks);
}

Test(layout, mapping_with_single_ranks)
{
    check_same("(vector,(0,2,2),0)", "(vector,(0,2,2),(0,1,1))", 5);
    check_same("(vector,3,(0,2,2),1,1)", "(vector,(3,1,1),(0,2,2),(1,1,2))", 7);
    check_same("(vector,0)", "(vector,(0,1,1))", 1);
}

Test(layout, mapping_with_repeats)
{
    check_same("(vector,[(0,2,2),3]x3,1)",
               "(vector,(0,2,2),(3,1,1),(0,2,2),(3,1,1),(0,2,2),(3,1,1),(1,1,1))", 16);
    check_same("(vector,(0,1,2),[1,0]x2)", "(vector,(0,1,2),(1,1,1),(0,1,1),(1,1,1),(0,1,1))", 6);
    check_same("(vector, [ 0 , 1 ]x30 )", "(vector,(0,2,1))", 60); /* no block for each time */
    check_same("(vector,5,[0,1]x4000)", "(vector,(5,1,1),(0,2,1),(0,2,1),(0,2,1))", 6);
}

Test(layout, empty_blocks_do_not_count)
{
    check("(vector,(0,0,2),(0,2,0),(0,1,3))", 7);
    check_same("(vector,(0,1,3),[(0,0,2)]x2000000000)", "(vector,(0,1,3))", 7); /* takes no time */
}

Test(layout, bad_mappings_are_refused)
{
    static const char *const bad[] = {"",
                                      "(vector",
                                      "(vector)",
                                      "(vector,(0,1))",
                                      "(vector,(0,1,1)",
                                      "(vector,(0,1,1)) x",
                                      "(matrix,(0,1,1))",
                                      "(vector,(-1,1,1))",
                                      "(vector,(0,1,1),)",
                                      "(vector,(0,0,0))",
                                      "(vector,x)",
                                      "(vector,[0,1])",
                                      "(vector,[0,1]x)",
                                      "(vector,[0,1]x0)",
                                      "(vector,[0,1x2)",
                                      "(vector,[]x2)",
                                      "(vector,[[0]x2]x2)",
                                      "(vector,(0,99999999999,1))",
                                      "(vector,(0,2000000000,2000000000))"};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct ut_job_place place;
        cr_assert_eq(ut_job_layout_parse(&layout, bad[i], 4), -EINVAL, "%s", bad[i]);
        cr_assert_eq(ut_job_layout_place(&layout, 0, &place), -ENOENT);
        cr_assert_eq(ut_job_layout_rank_at(&layout, 0, 0), -ENOENT);
    }
}

Test(layout, too_many_blocks_are_refused)
{
    static char text[20 * (UT_JOB_LAYOUT_BLOCKS + 2)];
    int n = snprintf(text, sizeof(text), "(vector");

    for (int i = 0; i <= UT_JOB_LAYOUT_BLOCKS; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ",(%d,1,1)", i);
    snprintf(text + n, sizeof(text) - (size_t)n, ")");
    cr_assert_eq(ut_job_layout_parse(&layout, text, 4), -EINVAL);
}

Test(layout, dealing_differs_by_one_at_most)
{
    for (uint32_t size = 1; size < 20; size++)
        for (uint32_t nodes = 1; nodes <= size; nodes++) {
            ut_job_layout_alloc(&layout, size, nodes);
            check_against_placing_one_by_one(size, layout.blocks, layout.num_blocks);
            struct ut_job_place place;
            ut_job_layout_place(&layout, size - 1, &place);
            cr_assert_eq(place.num_nodes, nodes);
            cr_assert_eq(place.local_size, size / nodes);
        }
}

Test(layout, tasks_per_node)
{
    cr_assert_eq(ut_job_layout_tasks("4", 0), 4);
    cr_assert_eq(ut_job_layout_tasks("4", 1), -ENOENT);
    cr_assert_eq(ut_job_layout_tasks("2(x3),1", 2), 2);
    cr_assert_eq(ut_job_layout_tasks("2(x3),1", 3), 1);
    cr_assert_eq(ut_job_layout_tasks("2(x3),1", 4), -ENOENT);
    cr_assert_eq(ut_job_layout_tasks("2(x", 1), -ENOENT);
    cr_assert_eq(ut_job_layout_tasks("", 0), -ENOENT);
    cr_assert_eq(ut_job_layout_tasks(NULL, 0), -ENOENT);
}

Test(pmi1, values_are_found_by_whole_keys)
{
    static const char line[] = "cmd=lookup_result xinfo=no info=ok port=0aff rc=0";
    char value[8];

    cr_assert_eq(ut_job_pmi1_value(line, "info", value, sizeof(value)), 0);
    cr_assert_str_eq(value, "ok");
    cr_assert_eq(ut_job_pmi1_value(line, "rc", value, sizeof(value)), 0);
    cr_assert_str_eq(value, "0");
    cr_assert_eq(ut_job_pmi1_value(line, "por", value, sizeof(value)), -ENOENT);
    cr_assert_eq(ut_job_pmi1_value("", "info", value, sizeof(value)), -ENOENT);
    cr_assert_eq(ut_job_pmi1_value(line, "cmd", value, sizeof(value)), -EMSGSIZE);
    cr_assert_eq(ut_job_pmi1_value(line, "port", value, 5), 0);
    cr_assert_str_eq(value, "0aff");
    cr_assert_eq(ut_job_pmi1_value(line, "port", value, 4), -EMSGSIZE);
    cr_assert_eq(ut_job_pmi1_value("a\n b=1\nc=\n", "b", value, sizeof(value)), 0);
    cr_assert_str_eq(value, "1");
    cr_assert_eq(ut_job_pmi1_value("a\n b=1\nc=\n", "c", value, 1), 0, "an empty value");
    cr_assert_str_eq(value, "");
    cr_assert_eq(ut_job_pmi1_value("ab=1", "b", value, sizeof(value)), -ENOENT);
    cr_assert_eq(ut_job_pmi1_value("rc", "rc", value, sizeof(value)), -ENOENT);
}

Test(pmi1, bytes_survive_the_digits)
{
    unsigned char in[256], out[256];
    char text[2 * sizeof(in) + 1];
    size_t size;

    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)i;
    ut_job_pmi1_encode(in, sizeof(in), text);
    cr_assert_eq(ut_job_pmi1_decode(text, out, sizeof(out), &size), 0);
    cr_assert_eq(size, sizeof(in));
    cr_assert_arr_eq(in, out, sizeof(in));
    cr_assert_eq(ut_job_pmi1_decode(text, out, sizeof(out) - 1, &size), -EMSGSIZE);
    cr_assert_eq(ut_job_pmi1_decode("abc", out, sizeof(out), &size), -EINVAL);
    cr_assert_eq(ut_job_pmi1_decode("0g", out, sizeof(out), &size), -EINVAL);
    cr_assert_eq(ut_job_pmi1_decode("", out, sizeof(out), &size), 0);
    cr_assert_eq(size, 0);
}

Test(pmi1, other_characters_are_no_digits)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char byte;
    size_t size;

    for (int c = 1; c < 256; c++) {
        const char *digit = strchr(digits, c);
        int value = digit ? (int)(digit - digits) : 0, rc = digit ? 0 : -EINVAL;
        const char low[] = {'7', (char)c, '\0'}, high[] = {(char)c, '7', '\0'};
        cr_assert_eq(ut_job_pmi1_decode(low, &byte, 1, &size), rc, "%d", c);
        cr_assert(rc != 0 || byte == (7 << 4 | value), "%d", c);
        cr_assert_eq(ut_job_pmi1_decode(high, &byte, 1, &size), rc, "%d", c);
        cr_assert(rc != 0 || byte == (value << 4 | 7), "%d", c);
    }
}

Test(root, three_forms)
{
    struct ut_job_root root;

    cr_assert_eq(ut_job_root_parse(&root, "/tmp"), 0);
    cr_assert_eq(root.kind, UT_JOB_ROOT_FOLDER);
    cr_assert(root.one_machine);

    cr_assert_eq(ut_job_root_parse(&root, "unix:@some.name,nodes=3"), 0);
    cr_assert_eq(root.kind, UT_JOB_ROOT_UNIX);
    cr_assert_eq(root.nodes, 3);
    cr_assert(root.one_machine);
    cr_assert_eq(root.address_len, 2 + 1 + strlen("some.name"));

    cr_assert_eq(ut_job_root_parse(&root, "192.0.2.1:4711"), 0);
    cr_assert_eq(root.kind, UT_JOB_ROOT_TCP);
    cr_assert_eq(((struct sockaddr_in *)&root.address)->sin_port, htons(4711));
    cr_assert_not(root.one_machine);

    cr_assert_eq(ut_job_root_parse(&root, "localhost:1"), 0);
    cr_assert(root.one_machine);
    cr_assert_eq(root.address.ss_family, AF_INET);

    cr_assert_eq(ut_job_root_parse(&root, "[::1]:65535"), 0);
    cr_assert(root.one_machine);
    cr_assert_eq(root.address.ss_family, AF_INET6);
}

Test(root, bad_roots_are_refused)
{
    static const char *const bad[] = {"",
                                      "nothing",
                                      "/no/such/folder",
                                      "/dev/null",
                                      ":80",
                                      "127.0.0.1:",
                                      "127.0.0.1:0",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:x",
                                      "::1:80",
                                      "[::1:80",
                                      "[]:80",
                                      "a/b:80",
                                      "unix:@",
                                      "unix:@,nodes=2",
                                      "unix:@a,nodes=0",
                                      "unix:@a,nodes=",
                                      "unix:@a,nodes=2x",
                                      "127.0.0.1:-1"};
    struct ut_job_root root;
    char longer[200];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(ut_job_root_parse(&root, bad[i]), -EINVAL, "%s", bad[i]);
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    memcpy(longer, "unix:@", 6);
    cr_assert_eq(ut_job_root_parse(&root, longer), -EINVAL);
}

Test(wire, only_our_messages_have_a_length)
{
    struct ut_job_wire msg;

    cr_assert_eq(ut_job_wire_fill(&msg, UT_JOB_WIRE_LOOKUP, UT_JOB_WIRE_OK, "abcd", 4),
                 UT_JOB_WIRE_HEADER + 4 + UT_JOB_WIRE_TAG);
    cr_assert_eq(ut_job_wire_need(&msg, 0), UT_JOB_WIRE_HEADER);
    cr_assert_eq(ut_job_wire_need(&msg, 7), UT_JOB_WIRE_HEADER);
    cr_assert_eq(ut_job_wire_need(&msg, 8), UT_JOB_WIRE_HEADER + 4 + UT_JOB_WIRE_TAG);
    msg.size = htole16(UT_JOB_WIRE_DATA + 1);
    cr_assert_eq(ut_job_wire_need(&msg, 8), 0);
    msg.size = 0;
    msg.magic++;
    cr_assert_eq(ut_job_wire_need(&msg, 8), 0);
}
