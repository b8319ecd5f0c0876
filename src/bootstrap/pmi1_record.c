/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records over PMI-1 in few queries, and the other operations of a launcher (ops.h). Records go
 * through publish_name and lookup_name, which are answered immediately; put and get are collective.
 * Each process publishes its own record under its rank. The first process of a node publishes the
 * key of the node's board (records.h). The others also write their records to the board, and need
 * no query for each other.
 * The process that writes last publishes all records of the node together, for other nodes. A value
 * that is longer than the launcher allows is split into pieces, NAME, NAME.1, NAME.2... The first
 * piece begins with the number of pieces and a colon.
 */
#include "bootstrap/job.h"
#include "bootstrap/nodes.h"
#include "bootstrap/ops.h"
#include "bootstrap/pmi1.h"
#include "bootstrap/pmi1_text.h"
#include "bootstrap/records.h"
#include "util/hash.h"
#include "util/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECES_MAX = 9999,
    HEAD_MAX = 5, /* the number of pieces and the colon */
    NAME_MAX_BYTES = 224,
    FIRST_BYTES = 83, /* size of a packed address record as made by the shm provider */
    OTHER_BYTES = 32, /* size of each further record of the node */
};

/* The name of a value: its kind and number. */
struct name {
    const char *what; /* "rank", "board" or "node" */
    uint32_t number;
};

static struct {
    const struct ut_job_pmi1_info *info;
    struct ut_job_place place;   /* num_nodes 0: unknown layout */
    pthread_mutex_t lock;        /* guards the fields below */
    struct ut_job_records board; /* size 0: not open */
    uint32_t needed; /* number of look-ups of processes of this node before the board was open */
    size_t own_size;
    uint8_t own_record[UT_JOB_RECORD_MAX];
} here = {.lock = PTHREAD_MUTEX_INITIALIZER, .board.fd = -1};

/* ---- values ---- */

/* Writes the name of a value, which all processes compute from the job's name, or from a hash of it
 * if the name makes keys too long. */
static void write_name(char text[NAME_MAX_BYTES], const struct name *name, unsigned int piece)
{
    static const char longest[] = "utofu..board.4294967295.9999";
    char job[sizeof(here.info->job)], number[32];
    bool is_rank = strcmp(name->what, "rank") == 0;

    snprintf(job, sizeof(job), "%s", here.info->job);
    if (sizeof(longest) + strlen(job) > here.info->key_max)
        snprintf(job, sizeof(job), "%016llx",
                 (unsigned long long)ut_hash(UT_HASH_FIRST, job, strlen(job)));
    snprintf(number, sizeof(number), piece > 0 ? "%u.%u" : "%u", name->number, piece);
    snprintf(text, NAME_MAX_BYTES, "utofu.%s.%s%s%s", job, is_rank ? "" : name->what,
             is_rank ? "" : ".", number);
}

/* hydra since MPICH 4.1 answers with rc only (pmi_wire.c, PMIU_msg_set_response()); before, with
 * info=ok whatever rc is (pmiserv_pmi_v1.c). Slurm answers with info only. */
static bool says_ok(const char *line)
{
    char value[16];

    if (ut_job_pmi1_value(line, "rc", value, sizeof(value)) == 0)
        return strcmp(value, "0") == 0;
    return ut_job_pmi1_value(line, "info", value, sizeof(value)) == 0 && strcmp(value, "ok") == 0;
}

static int put_piece(const struct name *name, unsigned int piece, const char *value, bool in_time)
{
    char service[NAME_MAX_BYTES], text[UT_JOB_PMI1_LINE], line[UT_JOB_PMI1_LINE];

    write_name(service, name, piece);
    int length =
        snprintf(text, sizeof(text), "cmd=publish_name service=%s port=%s\n", service, value);
    if (length < 0 || (size_t)length >= sizeof(text)) {
        ut_error("bootstrap", "%d bytes, with the name of %s %u, are too long for a line of PMI",
                 length, name->what, name->number);
        return -EMSGSIZE;
    }
    int rc = ut_job_pmi1_exchange(text, line, in_time);
    if (rc != 0 || says_ok(line))
        return rc;
    ut_error("bootstrap", "the launcher refuses to publish the name of %s %u: '%s'", name->what,
             name->number, line);
    return -EIO;
}

/* The number of hexadecimal digits in a piece, of whole bytes. */
static size_t piece_digits(void)
{
    return (here.info->value_max - 1 - HEAD_MAX) / 2 * 2;
}

/* Publishes the first piece last, because readers find the others by it. in_time: see pmi1.h. */
static int put_value(const struct name *name, const void *bytes, size_t size, bool in_time)
{
    char *hex = malloc(2 * size + 1), value[UT_JOB_PMI1_LINE];
    size_t each = piece_digits(), pieces = (2 * size + each - 1) / each;
    int rc = 0;

    if (!hex)
        return -ENOMEM;
    ut_job_pmi1_encode(bytes, size, hex);
    if (pieces > PIECES_MAX)
        rc = -EMSGSIZE;
    for (size_t i = pieces; i-- > 1 && rc == 0;) {
        snprintf(value, sizeof(value), "%.*s", (int)each, hex + i * each);
        rc = put_piece(name, (unsigned int)i, value, in_time);
    }
    if (rc == 0 && pieces > 1)
        snprintf(value, sizeof(value), "%zu:%.*s", pieces, (int)each, hex);
    else if (rc == 0)
        snprintf(value, sizeof(value), "%s", hex);
    if (rc == 0)
        rc = put_piece(name, 0, value, in_time);
    free(hex);
    return rc;
}

/* 0; -EAGAIN: no such value; another negative errno. */
static int get_piece(const struct name *name, unsigned int piece, char value[UT_JOB_PMI1_LINE])
{
    char service[NAME_MAX_BYTES], text[UT_JOB_PMI1_LINE], line[UT_JOB_PMI1_LINE];

    write_name(service, name, piece);
    snprintf(text, sizeof(text), "cmd=lookup_name service=%s\n", service);
    int rc = ut_job_pmi1_exchange(text, line, false);
    if (rc != 0)
        return rc;
    ut_job_count_question();
    if (!says_ok(line))
        return -EAGAIN;
    return ut_job_pmi1_value(line, "port", value, UT_JOB_PMI1_LINE) == 0 ? 0 : -EPROTO;
}

/* Reads the number of pieces. *digits is where the digits begin. */
static size_t read_head(const char *value, const char **digits)
{
    const char *colon = strchr(value, ':');
    char *end;

    *digits = colon ? colon + 1 : value;
    if (!colon)
        return 1;
    unsigned long pieces = strtoul(value, &end, 10);
    return end == colon && pieces > 1 && pieces <= PIECES_MAX ? pieces : 0;
}

/* Appends the bytes of a piece. */
static int add_piece(const char *digits, uint8_t *bytes, size_t max, size_t *size)
{
    size_t n = 0;
    int rc = ut_job_pmi1_decode(digits, bytes + *size, max - *size, &n);

    *size += n;
    return rc == 0 ? 0 : -EPROTO;
}

static int get_value(const struct name *name, uint8_t *bytes, size_t max, size_t *size)
{
    char value[UT_JOB_PMI1_LINE];
    const char *digits;
    size_t pieces = 0;

    *size = 0;
    int rc = get_piece(name, 0, value);
    if (rc == 0) {
        pieces = read_head(value, &digits);
        rc = pieces == 0 ? -EPROTO : add_piece(digits, bytes, max, size);
    }
    for (unsigned int i = 1; rc == 0 && i < pieces; i++) {
        rc = get_piece(name, i, value);
        if (rc == 0)
            rc = add_piece(value, bytes, max, size);
    }
    if (rc == -EPROTO)
        ut_error("bootstrap", "the launcher's answer about %s %u is damaged: '%.200s'", name->what,
                 name->number, value);
    return rc;
}

/* ---- the own node ---- */

static void publish_node(bool in_time)
{
    struct name name = {"node", here.place.node};
    struct ut_job_pack pack;
    int rc = ut_job_records_pack(&here.board, &pack);

    if (rc == 0)
        rc = put_value(&name, pack.data, pack.size, in_time);
    if (rc != 0)
        ut_info("bootstrap", "cannot publish the records of this node together: %s", strerror(-rc));
    ut_job_pack_free(&pack);
}

/* Called with the lock held and a board open. */
static void write_own(bool in_time)
{
    bool last = ut_job_board_write(&here.board, here.place.local_rank, here.own_record,
                                   (uint16_t)here.own_size);

    if (last && here.place.num_nodes > 1 && here.place.local_size >= UT_JOB_NODES_MIN)
        publish_node(in_time);
}

static void make_board(void)
{
    struct name name = {"board", here.place.node};
    struct ut_job_board_key key;
    int rc = ut_job_board_create(&here.board, here.place.local_size, &key);

    if (rc == 0)
        rc = put_value(&name, &key, sizeof(key), true);
    if (rc == 0)
        write_own(true);
    else
        ut_info("bootstrap", "no shared memory for the records of this node: %s", strerror(-rc));
}

/* -EAGAIN until the first process of the node has published the key. */
static void open_board(bool in_time)
{
    struct name name = {"board", here.place.node};
    struct ut_job_board_key key;
    size_t size;
    int rc = get_value(&name, (uint8_t *)&key, sizeof(key), &size);

    if (rc != 0 || size != sizeof(key))
        return;
    rc = ut_job_board_open(&here.board, here.place.local_size, &key);
    if (rc == 0)
        write_own(in_time);
    else
        ut_info("bootstrap", "the records of this node cannot be read from shared memory: %s",
                strerror(-rc));
}

static bool is_time_to_open(void)
{
    here.needed++;
    return here.own_size > 0 && here.place.local_rank > 0 && here.board.size == 0 &&
           (here.needed & (here.needed - 1)) == 0;
}

static bool read_board(uint32_t local_rank, void *record, size_t *size)
{
    pthread_mutex_lock(&here.lock);
    if (is_time_to_open())
        open_board(false);
    bool found = ut_job_records_read(&here.board, local_rank, record, size);
    pthread_mutex_unlock(&here.lock);
    return found;
}

/* ---- other nodes ---- */

static bool fetch_node(const struct ut_job_place *place)
{
    struct name name = {"node", place->node};
    size_t max = ((size_t)place->local_size + 1) * 2 * (UT_JOB_RECORD_MAX + 1), size;
    uint8_t *bytes = malloc(max);

    if (!bytes) {
        ut_job_nodes_set_empty(place->node);
        return false;
    }
    int rc = get_value(&name, bytes, max, &size);
    if (rc == 0)
        ut_job_nodes_add(place->node, bytes, size);
    else
        ut_job_nodes_set_empty(place->node);
    free(bytes);
    return rc == 0;
}

/* Estimates the number of pieces. */
static uint32_t questions_for(const struct ut_job_place *place)
{
    size_t bytes = FIRST_BYTES + (size_t)place->local_size * OTHER_BYTES;

    return (uint32_t)((2 * bytes + piece_digits() - 1) / piece_digits());
}

static bool read_node(const struct ut_job_place *place, void *record, size_t *size)
{
    uint32_t questions = questions_for(place);
    int rc = ut_job_nodes_lookup(place->node, place->local_rank, place->local_size, questions,
                                 record, size);

    if (rc == -EAGAIN && fetch_node(place))
        rc = ut_job_nodes_lookup(place->node, place->local_rank, place->local_size, questions,
                                 record, size);
    return rc == 0;
}

/* ---- as in ops.h ---- */

/* Forgets an earlier job. */
static void open_records(const struct ut_job_pmi1_info *info)
{
    here.info = info;
    here.needed = 0;
    here.own_size = 0;
    ut_job_records_free(&here.board);
    ut_job_nodes_free();
    if (ut_job_layout_place(&info->layout, info->rank, &here.place) != 0)
        here.place = (struct ut_job_place){0};
}

static int publish_own(const void *record, size_t size)
{
    struct name name = {"rank", here.info->rank};
    int rc = put_value(&name, record, size, true);

    if (rc != 0 || here.place.local_size < 2)
        return rc;
    pthread_mutex_lock(&here.lock);
    memcpy(here.own_record, record, size);
    here.own_size = size;
    here.place.local_rank == 0 ? make_board() : open_board(true);
    pthread_mutex_unlock(&here.lock);
    return 0;
}

static int ask_record(uint32_t rank, void *record, size_t *size)
{
    struct name name = {"rank", rank};
    struct ut_job_place place;

    if (here.place.num_nodes > 0 && ut_job_layout_place(&here.info->layout, rank, &place) == 0) {
        bool found = place.node == here.place.node ? read_board(place.local_rank, record, size)
                                                   : read_node(&place, record, size);
        if (found)
            return 0;
    }
    return get_value(&name, record, UT_JOB_RECORD_MAX, size);
}

static int open_job(struct ut_job_info *info, int64_t deadline)
{
    const struct ut_job_pmi1_info *launcher;
    int rc = ut_job_pmi1_open(info, &launcher);

    (void)deadline; /* every request has its own deadline */
    if (rc == 0)
        open_records(launcher);
    return rc;
}

static int look_up(uint32_t rank, void *record, size_t *size, int wait_ms)
{
    return ut_job_retry(ask_record, rank, record, size, wait_ms);
}

static int64_t find_rank_at(uint32_t node, uint32_t local_rank)
{
    return ut_job_layout_rank_at(&here.info->layout, node, local_rank);
}

const struct ut_job_ops ut_job_pmi1 = {.name = "pmi1",
                                       .present = ut_job_pmi1_present,
                                       .open = open_job,
                                       .publish = publish_own,
                                       .lookup = look_up,
                                       .rank_at = find_rank_at};
