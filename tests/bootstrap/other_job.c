/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two jobs exchange VCQ ids, each by its rank 0, through files: a put to the other job's VCQ is
 * refused at once, and utofu_get_last_error() gives the reason. An id within the job is the same
 * for its owner and for a process that constructs it, and the other ranks accept it. Rank 0 waits
 * for rank 1: a job that has ended takes its mark with it, and a process that comes later makes
 * another.
 *
 *   other_job OWN OTHER   writes its id to the file OWN, and reads the other's from OTHER
 *
 * Status 3: both jobs have the same mark, as one pair in 1023 has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utofu.h>
#include <utofu_ext.h>

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t words[32] __attribute__((aligned(256)));

static void write_id(const char *path, utofu_vcq_id_t id)
{
    char temporary[512];

    snprintf(temporary, sizeof(temporary), "%s.new", path);
    FILE *f = fopen(temporary, "w");
    CHECK(f && fprintf(f, "%016llx", (unsigned long long)id) == 16 && fclose(f) == 0);
    CHECK(rename(temporary, path) == 0);
}

static utofu_vcq_id_t read_id(const char *path)
{
    unsigned long long id;
    FILE *f;

    while (!(f = fopen(path, "r")))
        usleep(1000);
    CHECK(fscanf(f, "%llx", &id) == 1);
    fclose(f);
    return id;
}

static void is_refused(utofu_vcq_hdl_t vcq, utofu_vcq_id_t id, utofu_stadd_t stadd)
{
    char text[1024];
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    CHECK(utofu_put(vcq, id, stadd, stadd, 8, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL) ==
          UTOFU_ERR_INVALID_VCQ_ID);
    utofu_get_last_error(text);
    CHECK(strstr(text, "is of another job"));
    CHECK(utofu_query_vcq_info(id, coords, &tni, &cq, &extra) == UTOFU_ERR_INVALID_VCQ_ID);
    utofu_get_last_error(text);
    CHECK(strstr(text, "is of another job"));
}

static void is_of_this_job(utofu_vcq_id_t id)
{
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    CHECK(utofu_query_vcq_info(id, coords, &tni, &cq, &extra) == UTOFU_SUCCESS);
}

/* Called before set-up. */
static utofu_vcq_id_t construct(void)
{
    uint8_t coords[6] = {0};
    utofu_vcq_id_t id;

    CHECK(utofu_construct_vcq_id(coords, 0, 0, 5, &id) == UTOFU_SUCCESS);
    CHECK(utofu_query_my_coords(coords) == UTOFU_SUCCESS);
    CHECK(utofu_construct_vcq_id(coords, 0, 0, 5, &id) == UTOFU_SUCCESS);
    return id;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("UTOFU_RANK");
    utofu_vcq_id_t constructed = construct(), own, other;
    utofu_stadd_t stadd;
    utofu_vcq_hdl_t vcq;
    void *cbdata;
    int rc;

    CHECK(argc == 3);
    CHECK(utofu_create_vcq_with_cmp_id(0, 5, 0, &vcq) == UTOFU_SUCCESS);
    CHECK(utofu_query_vcq_id(vcq, &own) == UTOFU_SUCCESS);
    CHECK(utofu_reg_mem(vcq, words, sizeof(words), 0, &stadd) == UTOFU_SUCCESS);
    if (!rank || strcmp(rank, "0") == 0) {
        CHECK(own == constructed);
        write_id(argv[1], own);
    }
    other = read_id(argv[2]);
    if (!rank || strcmp(rank, "0") == 0) {
        if (other == own)
            return 3;
        is_refused(vcq, other, stadd);
    } else {
        is_of_this_job(read_id(argv[1]));
    }
    if (rank) {
        char met[512];
        snprintf(met, sizeof(met), "%s.met", argv[1]);
        if (strcmp(rank, "0") == 0)
            read_id(met);
        else
            write_id(met, own);
    }
    CHECK(utofu_put(vcq, constructed, stadd, stadd, 0, 0, UTOFU_ONESIDED_FLAG_TCQ_NOTICE, NULL) ==
          UTOFU_SUCCESS);
    while ((rc = utofu_poll_tcq(vcq, 0, &cbdata)) == UTOFU_ERR_NOT_FOUND)
        ;
    CHECK(rc == UTOFU_SUCCESS);
    return 0;
}
