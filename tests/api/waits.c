/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that wait in a call of the library for an event that does not happen, for waits.sh.
 *
 *   waits free   rank 0 frees a VCQ with a put under way to rank 1, which never makes its VCQ
 *   waits exit   the same, and rank 0 ends instead
 *   waits node   rank 0 asks for the node of rank 1, which never calls the library
 *   waits session  makes a session-mode VCQ in each process
 *   waits look   makes a VCQ, where nobody serves the job
 *
 * Rank 1 sleeps until utofurun ends it, or for a minute.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utofu.h>
#include <utofu_ext.h>

static uint64_t words[32] __attribute__((aligned(256)));
static utofu_vcq_hdl_t vcq;

static int number(const char *name)
{
    const char *text = getenv(name);

    return text ? atoi(text) : 0;
}

static void call(int rc, const char *what)
{
    if (rc == UTOFU_SUCCESS)
        return;
    printf("%s: %d\n", what, rc);
    exit(1);
}
#define CALL(c) call((c), #c)

/* The id that the VCQ of rank 1 would have. */
static utofu_vcq_id_t neighbour(void)
{
    uint8_t coords[6];
    utofu_vcq_id_t id;

    CALL(utofu_query_my_coords(coords));
    CALL(utofu_construct_vcq_id(coords, 0, 4, 7, &id));
    return id;
}

static void put(void)
{
    utofu_stadd_t stadd;

    CALL(utofu_create_vcq(0, 0, &vcq));
    CALL(utofu_reg_mem(vcq, words, sizeof(words), 0, &stadd));
    CALL(utofu_put(vcq, neighbour(), stadd, stadd, sizeof(words), 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
                   NULL));
}

static void free_it(void)
{
    char text[1024];

    put();
    CALL(utofu_free_vcq(vcq));
    utofu_get_last_error(text);
    printf("last error: %s\n", text);
}

static void ask_for_node(void)
{
    uint8_t coords[6];
    uint32_t node;

    printf("node: %d\n", utofu_query_rank_node(1, &node, coords));
}

/* The library's own thread looks for the process that serves the job. */
static void look(void)
{
    printf("vcq: %d\n", utofu_create_vcq(0, 0, &vcq));
    sleep(4);
}

int main(int argc, char **argv)
{
    const char *what = argc == 2 ? argv[1] : "";

    if (strcmp(what, "look") == 0)
        look();
    else if (strcmp(what, "session") == 0)
        CALL(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &vcq));
    else if (number("UTOFU_RANK") == 1)
        sleep(60);
    else if (strcmp(what, "free") == 0)
        free_it();
    else if (strcmp(what, "exit") == 0)
        put();
    else if (strcmp(what, "node") == 0)
        ask_for_node();
    fflush(stdout);
    return 0;
}
