/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu_get_last_error(): every failing call sets a text that begins with its code, describes the
 * error of this call, and is not that of an earlier failure. Successful calls, and polls without an
 * entry, do not change the text.
 */
#include "ends.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(last_error);

enum { SIZE = 4096 };

static char text[1024];

/* An earlier failure, different each time, whose text must be replaced, or still be there. */
static const char *leave_marker(void)
{
    static char marker[32];
    static uint64_t number = 0x5eed00000000;
    utofu_stadd_t stadd;

    snprintf(marker, sizeof(marker), "%016llx", (unsigned long long)++number);
    CHECK_RC(utofu_query_stadd(number, 0, &stadd), UTOFU_ERR_INVALID_VCQ_ID);
    utofu_get_last_error(text);
    CHECK(strstr(text, marker) != NULL, "%s is not in: %s", marker, text);
    return marker;
}

/* The text is the one of a call that returned `code`, and has each of the words, up to NULL. */
static void check_text(const char *call, const char *marker, int code, const char *const *words)
{
    char begin[64];

    utofu_get_last_error(text);
    ut_step("%s: %s", call, text);
    snprintf(begin, sizeof(begin), "UTOFU_%s (%d): ", ut_rc_name(code), code);
    CHECK(strncmp(text, begin, strlen(begin)) == 0, "%s: begins with no %s: %s", call, begin, text);
    CHECK(!marker || strstr(text, marker) == NULL, "%s: stale: %s", call, text);
    CHECK(strlen(text) > strlen(begin) + 10, "%s: says nothing: %s", call, text);
    CHECK(strchr(text, '\n') == NULL && strlen(text) < 1000, "%s: no line: %s", call, text);
    for (; *words; words++)
        CHECK(strstr(text, *words) != NULL, "%s: '%s' is not in: %s", call, *words, text);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FAILS(call, code, ...)                                                                     \
    do {                                                                                           \
        const char *ut_marker = leave_marker();                                                    \
        CHECK_RC(call, code);                                                                      \
        check_text(#call, ut_marker, code, WORDS(__VA_ARGS__));                                    \
    } while (0)

/* Does not change the text. */
#define LEAVES(call, code)                                                                         \
    do {                                                                                           \
        const char *ut_marker = leave_marker();                                                    \
        CHECK_RC(call, code);                                                                      \
        utofu_get_last_error(text);                                                                \
        CHECK(strstr(text, ut_marker) != NULL, "%s: changed to: %s", #call, text);                 \
    } while (0)

static const char *hex(const char *format, uint64_t number)
{
    static char texts[4][32];
    static unsigned int next;
    char *buf = texts[next++ % 4];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(buf, sizeof(texts[0]), format, (unsigned long long)number);
#pragma GCC diagnostic pop
    return buf;
}

static const char *id_text(uint64_t id)
{
    return hex("%016llx", id);
}

static const char *stadd_text(uint64_t stadd)
{
    return hex("STADD 0x%llx", stadd);
}

static utofu_vcq_hdl_t freed_vcq(void)
{
    utofu_vcq_hdl_t vcq;

    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    CHECK_OK(utofu_free_vcq(vcq));
    return vcq;
}

/* One process, functions that need no peer */

static void queries(void)
{
    static utofu_tni_id_t *tnis;
    static size_t count;
    static struct utofu_onesided_caps *onesided;
    static struct utofu_barrier_caps *barrier;

    FAILS(utofu_get_onesided_tnis(NULL, &count), UTOFU_ERR_INVALID_POINTER, "tni_ids");
    FAILS(utofu_get_barrier_tnis(&tnis, NULL), UTOFU_ERR_INVALID_POINTER, "num_tnis");
    FAILS(utofu_query_onesided_caps(0, NULL), UTOFU_ERR_INVALID_POINTER, "tni_caps");
    FAILS(utofu_query_onesided_caps(6, &onesided), UTOFU_ERR_INVALID_TNI_ID, "TNI 6", "0 to 5");
    FAILS(utofu_query_barrier_caps(0, NULL), UTOFU_ERR_INVALID_POINTER, "tni_caps");
    FAILS(utofu_query_barrier_caps(9, &barrier), UTOFU_ERR_INVALID_TNI_ID, "TNI 9");
    FAILS(utofu_query_my_coords(NULL), UTOFU_ERR_INVALID_POINTER, "coords");
    LEAVES(utofu_query_onesided_caps(0, &onesided), UTOFU_SUCCESS);
}

static void vcqs(const struct ut_end *end)
{
    uint8_t coords[6] = {0}, bad_coords[6] = {0, 0, 0, 0, 3, 0}, bad_path[3] = {2, 0, 0}, path[3];
    utofu_vcq_hdl_t vcq, stale = freed_vcq();
    utofu_vcq_id_t id = end->id;
    utofu_path_id_t path_id;
    utofu_tni_id_t tni;
    utofu_cq_id_t cq;
    uint16_t extra;

    FAILS(utofu_create_vcq(0, 0, NULL), UTOFU_ERR_INVALID_POINTER, "vcq_hdl");
    FAILS(utofu_create_vcq(6, 0, &vcq), UTOFU_ERR_INVALID_TNI_ID, "TNI 6");
    FAILS(utofu_create_vcq(0, 1ul << 20, &vcq), UTOFU_ERR_INVALID_FLAGS, "0x100000");
    FAILS(utofu_create_vcq(0, UTOFU_VCQ_FLAG_EXCLUSIVE | UTOFU_VCQ_FLAG_SESSION_MODE, &vcq),
          UTOFU_ERR_INVALID_FLAGS, "not both");
    FAILS(utofu_create_vcq_with_cmp_id(0, 0, UTOFU_VCQ_FLAG_EXCLUSIVE, &vcq),
          UTOFU_ERR_INVALID_FLAGS, "component id");
    FAILS(utofu_create_vcq_with_cmp_id(0, 8, 0, &vcq), UTOFU_ERR_INVALID_CMP_ID, "8", "0 to 7");
    CHECK_OK(utofu_create_vcq_with_cmp_id(1, 3, 0, &vcq));
    FAILS(utofu_create_vcq_with_cmp_id(1, 3, 0, &vcq), UTOFU_ERR_USED, "component id 3", "TNI 1");
    CHECK_OK(utofu_free_vcq(vcq));
    FAILS(utofu_free_vcq(stale), UTOFU_ERR_INVALID_VCQ_HDL, hex("%#llx", stale), "was freed");
    FAILS(utofu_free_vcq(0), UTOFU_ERR_INVALID_VCQ_HDL, "0 is not a VCQ handle");
    FAILS(utofu_free_vcq((utofu_vcq_hdl_t)end->id), UTOFU_ERR_INVALID_VCQ_HDL, id_text(end->id),
          "VCQ id, not a VCQ handle");
    FAILS(utofu_query_vcq_id(end->vcq, NULL), UTOFU_ERR_INVALID_POINTER, "vcq_id");
    FAILS(utofu_query_vcq_id(stale, &id), UTOFU_ERR_INVALID_VCQ_HDL, "was freed");
    FAILS(utofu_construct_vcq_id(NULL, 0, 0, 0, &id), UTOFU_ERR_INVALID_POINTER, "coords");
    FAILS(utofu_construct_vcq_id(bad_coords, 0, 0, 0, &id), UTOFU_ERR_INVALID_COORDS, "0, 3, 0");
    FAILS(utofu_construct_vcq_id(coords, 7, 0, 0, &id), UTOFU_ERR_INVALID_TNI_ID, "TNI 7");
    FAILS(utofu_construct_vcq_id(coords, 0, 4096, 0, &id), UTOFU_ERR_INVALID_CQ_ID, "CQ 4096");
    FAILS(utofu_construct_vcq_id(coords, 0, 0, 9, &id), UTOFU_ERR_INVALID_CMP_ID, "component id 9");
    FAILS(utofu_query_vcq_info(5, coords, &tni, &cq, &extra), UTOFU_ERR_INVALID_VCQ_ID,
          "0000000000000005");
    FAILS(utofu_query_vcq_info(id, coords, NULL, &cq, &extra), UTOFU_ERR_INVALID_POINTER, "tni_id");
    FAILS(utofu_set_vcq_id_path(NULL, path), UTOFU_ERR_INVALID_POINTER, "vcq_id");
    FAILS(utofu_set_vcq_id_path(&id, bad_path), UTOFU_ERR_INVALID_PATH, "2, 0, 0");
    FAILS(utofu_get_path_id(end->id, path, NULL), UTOFU_ERR_INVALID_POINTER, "path_id");
    FAILS(utofu_get_path_id(7, NULL, &path_id), UTOFU_ERR_INVALID_VCQ_ID, "0000000000000007");
    FAILS(utofu_get_path_id(end->id, bad_path, &path_id), UTOFU_ERR_INVALID_PATH, "2, 0, 0");
    FAILS(utofu_get_path_coords(end->id, 12, path), UTOFU_ERR_INVALID_PATH_ID, "path id 12");
    FAILS(utofu_get_path_coords(end->id, 0, NULL), UTOFU_ERR_INVALID_POINTER, "path_coords");
}

static int create_until(utofu_tni_id_t tni, unsigned long flags)
{
    utofu_vcq_hdl_t vcq;
    int rc;

    while ((rc = utofu_create_vcq(tni, flags, &vcq)) == UTOFU_SUCCESS)
        ;
    return rc;
}

static void too_many_vcqs(void)
{
    FAILS(create_until(2, 0), UTOFU_ERR_FULL, "TNI 2", "ordinary VCQ");
    FAILS(create_until(3, UTOFU_VCQ_FLAG_SESSION_MODE), UTOFU_ERR_FULL, "TNI 3", "session-mode");
    FAILS(create_until(4, UTOFU_VCQ_FLAG_EXCLUSIVE), UTOFU_ERR_NOT_AVAILABLE, "TNI 4",
          "UTOFU_NUM_EXCLUSIVE_CQS");
}

static void stadds(const struct ut_end *end)
{
    utofu_vcq_hdl_t stale = freed_vcq();
    uint8_t *memory = ut_pages(SIZE), *gone = ut_pages(SIZE);
    utofu_stadd_t stadd, first;

    CHECK_EQ(munmap(gone, SIZE), 0);
    FAILS(utofu_reg_mem(end->vcq, memory, SIZE, 0, NULL), UTOFU_ERR_INVALID_POINTER, "stadd");
    FAILS(utofu_reg_mem(end->vcq, NULL, SIZE, 0, &stadd), UTOFU_ERR_INVALID_ADDRESS, "4096 bytes");
    FAILS(utofu_reg_mem(end->vcq, gone, SIZE, 0, &stadd), UTOFU_ERR_INVALID_ADDRESS, "4096 bytes",
          hex("%#llx", (uintptr_t)gone), "mapped", "READ_ONLY");
    FAILS(utofu_reg_mem(end->vcq, gone, SIZE, UTOFU_REG_MEM_FLAG_READ_ONLY, &stadd),
          UTOFU_ERR_INVALID_ADDRESS, hex("%#llx", (uintptr_t)gone), "mapped");
    FAILS(utofu_reg_mem(end->vcq, memory, 0, 0, &stadd), UTOFU_ERR_INVALID_SIZE, "not 0");
    FAILS(utofu_reg_mem(end->vcq, memory, SIZE, 8, &stadd), UTOFU_ERR_INVALID_FLAGS, "0x8");
    FAILS(utofu_reg_mem(stale, memory, SIZE, 0, &stadd), UTOFU_ERR_INVALID_VCQ_HDL, "was freed");
    FAILS(utofu_reg_mem_with_stag(end->vcq, memory, SIZE, 256, 0, &stadd), UTOFU_ERR_INVALID_STAG,
          "STag 256");
    FAILS(utofu_reg_mem_with_stag(end->vcq, memory + 8, SIZE, 1, 0, &stadd),
          UTOFU_ERR_INVALID_ADDRESS, "multiple of 256");
    FAILS(utofu_reg_mem_with_stag(end->vcq, memory, 100, 1, 0, &stadd), UTOFU_ERR_INVALID_SIZE,
          "100");
    CHECK_OK(utofu_reg_mem_with_stag(end->vcq, memory, SIZE, 5, 0, &first));
    FAILS(utofu_reg_mem_with_stag(end->vcq, memory, SIZE, 5, 0, &stadd), UTOFU_ERR_USED, "STag 5",
          "4096 bytes");
    FAILS(utofu_query_stadd(end->id, 256, &stadd), UTOFU_ERR_INVALID_STAG, "STag 256");
    FAILS(utofu_query_stadd(end->id, 0, NULL), UTOFU_ERR_INVALID_POINTER, "stadd");
    FAILS(utofu_query_stadd(3, 0, &stadd), UTOFU_ERR_INVALID_VCQ_ID, "0000000000000003");
    FAILS(utofu_dereg_mem(end->vcq, first + 8, 0), UTOFU_ERR_INVALID_STADD, stadd_text(first + 8),
          "first byte", id_text(end->id));
    CHECK_OK(utofu_dereg_mem(end->vcq, first, 0));
    FAILS(utofu_dereg_mem(end->vcq, first, 0), UTOFU_ERR_INVALID_STADD, stadd_text(first),
          "not registered");
    FAILS(utofu_dereg_mem(end->vcq, first, 4), UTOFU_ERR_INVALID_FLAGS, "0x4");
    FAILS(utofu_dereg_mem(stale, first, 0), UTOFU_ERR_INVALID_VCQ_HDL, "was freed");
}

static struct ut_comm good_comm(const struct ut_end *end, enum ut_kind kind, bool prepared)
{
    return (struct ut_comm){.kind = kind,
                            .prepared = prepared,
                            .vcq = end->vcq,
                            .rmt = end->id,
                            .lcl_stadd = end->stadd,
                            .rmt_stadd = end->stadd,
                            .data = end->mem,
                            .length = 8,
                            .stride = 16,
                            .blocks = 2};
}

static void starts(const struct ut_end *end)
{
    utofu_vcq_hdl_t stale = freed_vcq();

    for (int i = 0; i < 2 * UT_NUM_KINDS; i++) {
        struct ut_comm good = good_comm(end, (enum ut_kind)(i / 2), i % 2), c = good;

        ut_step("%s", ut_kind_name(c.kind));
        c.vcq = stale;
        FAILS(ut_start(&c), UTOFU_ERR_INVALID_VCQ_HDL, hex("%#llx", stale), "was freed");
        c = good;
        c.flags = 1ul << 40;
        FAILS(ut_start(&c), UTOFU_ERR_INVALID_FLAGS, "0x10000000000");
        c.flags = UTOFU_ONESIDED_FLAG_PATH(13);
        FAILS(ut_start(&c), UTOFU_ERR_INVALID_PATH_ID, "path id 13");
        if (c.kind == UT_NOP)
            continue;
        c = good;
        c.rmt = 77;
        FAILS(ut_start(&c), UTOFU_ERR_INVALID_VCQ_ID, "000000000000004d");
        c = good;
        c.length = ut_max_length(c.kind) + 1;
        FAILS(ut_start(&c), UTOFU_ERR_INVALID_SIZE, hex("length %llu", c.length),
              hex("maximum is %llu", c.length - 1));
        c = good;
        c.edata = 256;
        FAILS(ut_start(&c), UTOFU_ERR_INVALID_EDATA, "EDATA 256");
        c = good;
        c.blocks = 1 << 21;
        if (ut_is_stride(c.kind))
            FAILS(utofu_put_stride(c.vcq, c.rmt, c.lcl_stadd, c.rmt_stadd, 8, 8, c.blocks, 0, 0,
                                   NULL),
                  UTOFU_ERR_INVALID_NUMBER, "2097152 blocks", "2048 entries");
        c = good;
        c.mtu = 1921;
        if (ut_has_gap(c.kind))
            FAILS(ut_start(&c), UTOFU_ERR_INVALID_SIZE, "MTU 1921");
        c = good;
        c.gap = 256;
        if (ut_has_gap(c.kind))
            FAILS(ut_start(&c), UTOFU_ERR_INVALID_NUMBER, "gap 256");
    }
    FAILS(utofu_put_piggyback(end->vcq, end->id, NULL, end->stadd, 8, 0, 0, NULL),
          UTOFU_ERR_INVALID_POINTER, "lcl_data");
}

static void armws_and_descriptors(const struct ut_end *end)
{
    static uint64_t desc[UT_DESC / 8];
    utofu_vcq_hdl_t session, stale = freed_vcq();
    size_t size;

    static const struct {
        unsigned int op;
        const char *text;
    } wrong[] = {{0, "operator 0:"}, {6, "operator 6:"}, {9, "operator 9:"}, {99, "operator 99:"}};
    for (int i = 0; i < 4; i++) {
        FAILS(utofu_armw4(end->vcq, end->id, (enum utofu_armw_op)wrong[i].op, 1, end->stadd, 0, 0,
                          NULL),
              UTOFU_ERR_INVALID_OP, wrong[i].text, "1 to 5", "utofu_cswap8");
        FAILS(utofu_armw8(end->vcq, end->id, (enum utofu_armw_op)wrong[i].op, 1, end->stadd, 0, 0,
                          NULL),
              UTOFU_ERR_INVALID_OP, wrong[i].text);
    }
    FAILS(utofu_armw8(end->vcq, end->id, UTOFU_ARMW_OP_ADD, 1, end->stadd + 4, 0, 0, NULL),
          UTOFU_ERR_INVALID_STADD, hex("%016llx", end->stadd + 4), "8 bytes");
    FAILS(utofu_cswap4(end->vcq, 1, 1, 1, end->stadd, 0, 0, NULL), UTOFU_ERR_INVALID_VCQ_ID,
          "0000000000000001");
    FAILS(utofu_cswap8(stale, end->id, 1, 1, end->stadd, 0, 0, NULL), UTOFU_ERR_INVALID_VCQ_HDL,
          "was freed");
    FAILS(utofu_put(end->vcq, end->id, end->stadd, end->stadd, 8, 0, UTOFU_ONESIDED_FLAG_PATH(200),
                    NULL),
          UTOFU_ERR_INVALID_PATH_ID, "200");
    FAILS(utofu_get(end->vcq, end->id, end->stadd, end->stadd, 8, 0, UTOFU_ONESIDED_FLAG_SPS(1),
                    NULL),
          UTOFU_ERR_INVALID_FLAGS, "SPS");
    FAILS(utofu_prepare_nop(end->vcq, 0, NULL, &size), UTOFU_ERR_INVALID_POINTER, "desc");
    FAILS(utofu_post_toq(end->vcq, NULL, UT_DESC, NULL), UTOFU_ERR_INVALID_POINTER, "desc");
    FAILS(utofu_post_toq(end->vcq, desc, UT_DESC, NULL), UTOFU_ERR_INVALID_DESC, "descriptor 0");
    FAILS(utofu_post_toq(end->vcq, desc, UT_DESC - 8, NULL), UTOFU_ERR_INVALID_SIZE, "56 bytes");
    FAILS(utofu_post_toq(stale, desc, UT_DESC, NULL), UTOFU_ERR_INVALID_VCQ_HDL, "was freed");
    CHECK_OK(utofu_create_vcq(0, UTOFU_VCQ_FLAG_SESSION_MODE, &session));
    FAILS(utofu_put_piggyback8(session, end->id, 1, end->stadd, 8, 0, 0, NULL),
          UTOFU_ERR_NOT_SUPPORTED, "session-mode");
    for (int i = 0; i < 2048; i++)
        CHECK_OK(utofu_nop(session, 0, NULL));
    utofu_vcq_id_t id;
    CHECK_OK(utofu_query_vcq_id(session, &id));
    FAILS(utofu_nop(session, 0, NULL), UTOFU_ERR_BUSY, id_text(id), "2048", "utofu_poll_tcq()");
    CHECK_OK(utofu_prepare_nop(session, 0, desc, &size));
    FAILS(utofu_post_toq(session, desc, size, NULL), UTOFU_ERR_BUSY, id_text(id));
    CHECK_OK(utofu_free_vcq(session));
}

static void polls(const struct ut_end *end)
{
    utofu_vcq_hdl_t stale = freed_vcq();
    struct utofu_mrq_notice notice;
    void *cbdata;
    size_t count;

    FAILS(utofu_poll_tcq(stale, 0, &cbdata), UTOFU_ERR_INVALID_VCQ_HDL, "was freed");
    FAILS(utofu_poll_tcq(end->vcq, 1, &cbdata), UTOFU_ERR_INVALID_FLAGS, "0x1");
    FAILS(utofu_poll_tcq(end->vcq, 0, NULL), UTOFU_ERR_INVALID_POINTER, "cbdata");
    FAILS(utofu_poll_mrq(stale, 0, &notice), UTOFU_ERR_INVALID_VCQ_HDL, "was freed");
    FAILS(utofu_poll_mrq(end->vcq, 1, &notice), UTOFU_ERR_INVALID_FLAGS, "0x1");
    FAILS(utofu_poll_mrq(end->vcq, 0, NULL), UTOFU_ERR_INVALID_POINTER, "notice");
    FAILS(utofu_query_num_unread_tcq(stale, &count), UTOFU_ERR_INVALID_VCQ_HDL, "was freed");
    FAILS(utofu_query_num_unread_tcq(end->vcq, NULL), UTOFU_ERR_INVALID_POINTER, "count");
    FAILS(utofu_query_num_unread_mrq(stale, &count), UTOFU_ERR_INVALID_VCQ_HDL, "was freed");
    FAILS(utofu_query_num_unread_mrq(end->vcq, NULL), UTOFU_ERR_INVALID_POINTER, "count");
    LEAVES(utofu_poll_tcq(end->vcq, 0, &cbdata), UTOFU_ERR_NOT_FOUND);
    LEAVES(utofu_poll_mrq(end->vcq, 0, &notice), UTOFU_ERR_NOT_FOUND);
}

static void vbgs(void)
{
    static utofu_vbg_id_t ids[64], twin[2];
    struct utofu_vbg_setting s[3];
    uint8_t coords[6];
    utofu_tni_id_t tni;
    utofu_bg_id_t bg;
    uint16_t extra;

    FAILS(utofu_alloc_vbg(0, 1, 0, NULL), UTOFU_ERR_INVALID_POINTER, "vbg_ids");
    FAILS(utofu_alloc_vbg(6, 1, 0, ids), UTOFU_ERR_INVALID_TNI_ID, "TNI 6");
    FAILS(utofu_alloc_vbg(0, 0, 0, ids), UTOFU_ERR_INVALID_NUMBER, "num_vbgs");
    FAILS(utofu_alloc_vbg(0, 1, 64, ids), UTOFU_ERR_INVALID_FLAGS, "0x40");
    FAILS(utofu_alloc_vbg(5, 64, 0, ids), UTOFU_ERR_FULL, "TNI 5", "64 gates", "32 relay gates");
    CHECK_OK(utofu_alloc_vbg(0, 2, 0, twin));
    memset(s, 0xff, sizeof(s)); /* all ids are UTOFU_VBG_ID_NULL */
    s[0].vbg_id = s[1].vbg_id = twin[0];
    s[2].vbg_id = twin[1];
    FAILS(utofu_set_vbg(NULL, 1), UTOFU_ERR_INVALID_POINTER, "vbg_settings");
    FAILS(utofu_set_vbg(s, 0), UTOFU_ERR_INVALID_NUMBER, "num_vbg_settings");
    FAILS(utofu_set_vbg(s, 3), UTOFU_ERR_INVALID_NUMBER, "3 settings", "2 gates");
    FAILS(utofu_set_vbg(s, 2), UTOFU_ERR_INVALID_DATA, "gate 0 (TNI 0, rank 0)", "twice");
    FAILS(utofu_set_vbg(s + 2, 1), UTOFU_ERR_INVALID_VBG_ID, hex("%#llx", twin[1]));
    s[0].src_lcl_vbg_id = 99;
    FAILS(utofu_set_vbg(s, 1), UTOFU_ERR_INVALID_VBG_ID, "");
    s[0].src_lcl_vbg_id = UTOFU_VBG_ID_NULL;
    FAILS(utofu_barrier(twin[0], 0), UTOFU_ERR_INVALID_VBG_ID, hex("%#llx", twin[0]));
    s[0].dst_rmt_vbg_id = twin[0];
    s[0].dst_path_coords[0] = 7;
    FAILS(utofu_set_vbg(s, 1), UTOFU_ERR_INVALID_PATH, "path 7");
    FAILS(utofu_free_vbg(NULL, 1), UTOFU_ERR_INVALID_POINTER, "vbg_ids");
    FAILS(utofu_free_vbg(twin, 0), UTOFU_ERR_INVALID_NUMBER, "num_vbgs");
    FAILS(utofu_free_vbg(twin, 1), UTOFU_ERR_INVALID_NUMBER, "2 gates");
    FAILS(utofu_free_vbg(&twin[1], 1), UTOFU_ERR_INVALID_VBG_ID, "not the first gate");
    ids[0] = twin[0] + 1; /* of the next gate */
    FAILS(utofu_free_vbg(ids, 1), UTOFU_ERR_INVALID_VBG_ID, "not allocated");
    FAILS(utofu_query_vbg_info(1, NULL, &tni, &bg, &extra), UTOFU_ERR_INVALID_POINTER, "NULL");
    FAILS(utofu_query_vbg_info(~1ull, coords, &tni, &bg, &extra), UTOFU_ERR_INVALID_VBG_ID,
          hex("%#llx", ~1ull));
    CHECK_OK(utofu_free_vbg(twin, 2));
}

static int await_barrier(utofu_vbg_id_t id)
{
    int rc;

    while ((rc = utofu_poll_barrier(id, 0)) == UTOFU_ERR_NOT_COMPLETED)
        ut_relax();
    return rc;
}

static void barriers(void)
{
    static uint64_t u[7];
    static double d[7];
    utofu_vbg_id_t gates[2];

    ut_pair_gates(gates);
    const char *name = "gate 0 (TNI 0, rank 0)";
    FAILS(utofu_barrier(gates[0], 1), UTOFU_ERR_INVALID_FLAGS, "0x1");
    FAILS(utofu_barrier(UTOFU_VBG_ID_NULL, 0), UTOFU_ERR_INVALID_VBG_ID, "start/end gate");
    FAILS(utofu_reduce_uint64(gates[0], UTOFU_REDUCE_OP_SUM, NULL, 1, 0), UTOFU_ERR_INVALID_POINTER,
          "data");
    FAILS(utofu_reduce_uint64(gates[0], UTOFU_REDUCE_OP_BFPSUM, u, 1, 0), UTOFU_ERR_INVALID_OP,
          "operation 8 is not defined");
    FAILS(utofu_reduce_uint64(gates[0], UTOFU_REDUCE_OP_SUM, u, 7, 0), UTOFU_ERR_INVALID_NUMBER,
          "7 values");
    FAILS(utofu_reduce_uint64(gates[0], UTOFU_REDUCE_OP_SUM, u, 1, 2), UTOFU_ERR_INVALID_FLAGS,
          "0x2");
    FAILS(utofu_reduce_double(gates[0], UTOFU_REDUCE_OP_BFPSUM, NULL, 1, 0),
          UTOFU_ERR_INVALID_POINTER, "data");
    FAILS(utofu_reduce_double(gates[0], UTOFU_REDUCE_OP_SUM, d, 1, 0), UTOFU_ERR_INVALID_OP,
          "operation 7 is not defined");
    FAILS(utofu_reduce_double(gates[0], UTOFU_REDUCE_OP_BFPSUM, d, 4, 0), UTOFU_ERR_INVALID_NUMBER,
          "4 values");
    FAILS(utofu_poll_barrier(gates[0], 0), UTOFU_ERR_BUSY, name, "no barrier");
    FAILS(utofu_poll_barrier(UTOFU_VBG_ID_NULL, 0), UTOFU_ERR_INVALID_VBG_ID, "start/end gate");
    FAILS(utofu_poll_barrier(gates[0], 1), UTOFU_ERR_INVALID_FLAGS, "0x1");
    FAILS(utofu_poll_reduce_uint64(gates[0], 0, NULL), UTOFU_ERR_INVALID_POINTER, "data");
    FAILS(utofu_poll_reduce_double(gates[0], 0, NULL), UTOFU_ERR_INVALID_POINTER, "data");
    CHECK_OK(utofu_barrier(gates[0], 0));
    FAILS(utofu_barrier(gates[0], 0), UTOFU_ERR_BUSY, name, "polled to its end");
    FAILS(utofu_poll_reduce_uint64(gates[0], 0, u), UTOFU_ERR_BUSY, name, "uint64_t");
    FAILS(utofu_poll_reduce_double(gates[0], 0, d), UTOFU_ERR_BUSY, name, "double");
    LEAVES(utofu_poll_barrier(gates[0], 0), UTOFU_ERR_NOT_COMPLETED);
    CHECK_OK(utofu_reduce_uint64(gates[1], UTOFU_REDUCE_OP_SUM, u, 1, 0));
    FAILS(await_barrier(gates[0]), UTOFU_ERR_BARRIER_MISMATCH, name, "same operation");
}

static void without_a_peer(void *arg)
{
    struct ut_end end;

    (void)arg;
    ut_end_open(&end, 0, 0, SIZE);
    queries();
    vcqs(&end);
    stadds(&end);
    starts(&end);
    armws_and_descriptors(&end);
    polls(&end);
    vbgs();
    barriers();
    too_many_vcqs();
    _exit(0); /* without closing its many VCQs */
}

Test(last_error, every_wrong_call_says_what_was_wrong)
{
    ut_run(&(struct ut_run_opts){.n = 1}, without_a_peer, NULL);
}

/* Communications that fail */

static struct ut_end end;
static struct ut_peer peers[2];
static struct utofu_mrq_notice notice;

static int tcq_of(const struct ut_comm *c)
{
    void *cbdata = NULL;

    CHECK_OK(ut_start(c));
    int rc = ut_await_tcq(c->vcq, &cbdata);
    CHECK_EQ(cbdata, c->cbdata);
    return rc;
}

static int mrq_of(const struct ut_comm *c)
{
    CHECK_OK(ut_start(c));
    memset(&notice, 0xa5, sizeof(notice));
    int rc = ut_await_mrq(c->vcq, &notice);
    /* the stored cause is not visible */
    CHECK(notice.vcq_id == c->rmt && notice.edata == c->edata);
    CHECK(notice.reserved[0] == 0 && notice.reserved[1] == 0);
    CHECK_EQ(notice.lcl_stadd, ut_is_get(c->kind) ? c->lcl_stadd + c->length : 0);
    CHECK_EQ(notice.rmt_stadd, ut_is_get(c->kind) ? 0 : c->rmt_stadd + c->length);
    return rc;
}

static struct ut_comm comm_to(enum ut_kind kind, uint64_t lcl_offset, uint64_t rmt_offset,
                              size_t length)
{
    return (struct ut_comm){.kind = kind,
                            .vcq = end.vcq,
                            .rmt = peers[1].id,
                            .lcl_stadd = end.stadd + lcl_offset,
                            .rmt_stadd = peers[1].stadd + rmt_offset,
                            .data = &notice,
                            .length = length,
                            .edata = 7,
                            .cbdata = &end};
}

/* Registered by rank 1: a region that is read-only, and one that no longer is. */
struct more {
    utofu_stadd_t read_only, gone;
};

static struct more more_memory(void)
{
    struct more more;

    CHECK_OK(utofu_reg_mem(end.vcq, ut_pages(SIZE), SIZE, UTOFU_REG_MEM_FLAG_READ_ONLY,
                           &more.read_only));
    CHECK_OK(utofu_reg_mem_with_stag(end.vcq, ut_pages(SIZE), SIZE, 9, 0, &more.gone));
    CHECK_OK(utofu_dereg_mem(end.vcq, more.gone, 0));
    return more;
}

static void tcq_errors(const struct more *mine)
{
    struct ut_comm c = comm_to(UT_PUT, 0, 0, 2 * SIZE);

    FAILS(tcq_of(&c), UTOFU_ERR_TCQ_LENGTH, "put of 8192 bytes with EDATA 7", id_text(end.id),
          id_text(peers[1].id), "rank 1", "local", stadd_text(end.stadd), "bytes are left");
    c = comm_to(UT_PUT, 1ull << 20, 0, 16);
    FAILS(tcq_of(&c), UTOFU_ERR_TCQ_STADD, "put of 16 bytes", "local", stadd_text(c.lcl_stadd),
          "behind the last byte");
    c = comm_to(UT_PUT, 0, 0, 16);
    c.lcl_stadd = mine->gone;
    FAILS(tcq_of(&c), UTOFU_ERR_TCQ_STADD, stadd_text(mine->gone), "9 of component",
          "deregistered");
}

static void local_mrq_errors(const struct more *mine)
{
    struct ut_comm c = comm_to(UT_GET, SIZE - 24, 0, 64);

    c.lcl_stadd = mine->read_only + SIZE - 24;
    FAILS(mrq_of(&c), UTOFU_ERR_MRQ_LCL_LENGTH, "get of 64 bytes with EDATA 7", "rank 1", "local",
          stadd_text(c.lcl_stadd), ": 24 bytes are left");
    c.lcl_stadd = mine->read_only + SIZE + 9;
    FAILS(mrq_of(&c), UTOFU_ERR_MRQ_LCL_STADD, "10 bytes behind the last byte",
          stadd_text(c.lcl_stadd));
    c.lcl_stadd = mine->read_only - 5;
    FAILS(mrq_of(&c), UTOFU_ERR_MRQ_LCL_STADD, "5 bytes before", stadd_text(c.lcl_stadd));
    c.lcl_stadd = mine->read_only;
    FAILS(mrq_of(&c), UTOFU_ERR_MRQ_LCL_MEMORY, "local", "read-only", stadd_text(c.lcl_stadd));
}

static void remote_mrq_errors(const struct more *theirs)
{
    struct ut_comm c = comm_to(UT_PUT, 0, 0, 64);

    for (int get = 0; get < 2; get++) {
        c.kind = get ? UT_GET : UT_PUT;
        const char *what = get ? "get of 64 bytes with EDATA 7" : "put of 64 bytes with EDATA 7";
        c.rmt_stadd = theirs->read_only + SIZE - 8;
        FAILS(mrq_of(&c), UTOFU_ERR_MRQ_RMT_LENGTH, what, id_text(peers[1].id), "rank 1", "remote",
              stadd_text(c.rmt_stadd), ": 8 bytes are left");
        c.rmt_stadd = theirs->read_only + 3 * SIZE;
        FAILS(mrq_of(&c), UTOFU_ERR_MRQ_RMT_STADD, what, "8193 bytes behind",
              stadd_text(c.rmt_stadd));
        c.rmt_stadd = theirs->gone + 16;
        FAILS(mrq_of(&c), UTOFU_ERR_MRQ_RMT_STADD, what, "9 of component", "deregistered",
              stadd_text(c.rmt_stadd));
    }
    c.kind = UT_PUT;
    c.rmt_stadd = theirs->read_only;
    FAILS(mrq_of(&c), UTOFU_ERR_MRQ_RMT_MEMORY, "put of 64 bytes", "remote", "read-only",
          stadd_text(c.rmt_stadd));
    c.kind = UT_PIGGYBACK8;
    c.length = 8;
    FAILS(mrq_of(&c), UTOFU_ERR_MRQ_RMT_MEMORY, "put of 8 bytes", "read-only");
}

static int armw_on(utofu_stadd_t stadd)
{
    CHECK_OK(utofu_armw8(end.vcq, peers[1].id, UTOFU_ARMW_OP_ADD, 1, stadd, 3, 0, NULL));
    return ut_await_mrq(end.vcq, &notice);
}

static void armw_errors(const struct more *theirs)
{
    FAILS(armw_on(theirs->gone), UTOFU_ERR_MRQ_RMT_STADD, "ARMW of 8 bytes with EDATA 3", "rank 1",
          "remote", stadd_text(theirs->gone));
    FAILS(armw_on(theirs->read_only), UTOFU_ERR_MRQ_RMT_MEMORY, "ARMW of 8 bytes", "read-only",
          stadd_text(theirs->read_only));
}

/* A good communication after a failed one, and the reverse, polled together. */
static void errors_among_others(const struct more *theirs)
{
    struct ut_comm bad = comm_to(UT_PUT, 0, 0, 64), good = comm_to(UT_PUT, 0, 0, 16);

    bad.rmt_stadd = theirs->read_only;
    good.flags = UT_LCL;
    for (int bad_first = 0; bad_first < 2; bad_first++) {
        const char *marker = leave_marker();
        CHECK_OK(ut_start(bad_first ? &bad : &good));
        CHECK_OK(ut_start(bad_first ? &good : &bad));
        for (int i = 0; i < 2; i++) {
            bool failed = i != bad_first;
            CHECK_RC(ut_await_mrq(end.vcq, &notice),
                     failed ? UTOFU_ERR_MRQ_RMT_MEMORY : UTOFU_SUCCESS);
            CHECK(notice.reserved[0] == 0 && notice.reserved[1] == 0 && notice.lcl_stadd == 0);
            if (failed || bad_first) /* success does not change it */
                check_text("both", marker, UTOFU_ERR_MRQ_RMT_MEMORY, WORDS("read-only"));
        }
    }
}

static void with_a_peer(void *arg)
{
    struct more all[2];

    (void)arg;
    ut_open_all(&end, SIZE, peers);
    struct more mine = more_memory();
    ut_allgather(&mine, all, sizeof(mine));
    if (ut_rank == 0) {
        tcq_errors(&mine);
        local_mrq_errors(&mine);
        remote_mrq_errors(&all[1]);
        armw_errors(&all[1]);
        errors_among_others(&all[1]);
    }
    ut_barrier();
    ut_close_all(&end);
}

Test(last_error, communications_say_what_failed_and_whose_memory_it_was)
{
    ut_run(&(struct ut_run_opts){.n = 2}, with_a_peer, NULL);
}

Test(last_error, watched_communications_do_too)
{
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_STATS=1"}}, with_a_peer, NULL);
}

/* Missing peers */

static int put_to(utofu_vcq_id_t id)
{
    CHECK_OK(utofu_put_piggyback8(end.vcq, id, 1, peers[1].stadd, 8, 9, 0, NULL));
    return ut_await_mrq(end.vcq, &notice);
}

static int put_until_it_fails(void)
{
    int rc;

    do {
        CHECK_OK(utofu_put_piggyback8(end.vcq, peers[1].id, 1, peers[1].stadd, 8, 9, UT_LCL, NULL));
        rc = ut_await_mrq(end.vcq, &notice);
    } while (rc != UTOFU_ERR_MRQ_PEER);
    return rc;
}

/* Over connections made by datagrams the death of a process is not reported. */
static const char *end_of_process(void)
{
    const char *connect = getenv("UTOFU_VERBS_CONNECT");

    return connect && strcmp(connect, "ud") == 0 ? "has not answered for more than"
                                                 : "process has ended";
}

static void peer_leaves(void *arg)
{
    bool dies = *(bool *)arg;
    const char *what = dies ? end_of_process() : "freed the VCQ";
    uint8_t coords[6];
    utofu_vcq_id_t nobody, none;

    ut_open_all(&end, SIZE, peers);
    CHECK_OK(utofu_query_my_coords(coords));
    CHECK_OK(utofu_construct_vcq_id(coords, 5, 4, 1, &none));
    CHECK_OK(utofu_construct_vcq_id(coords, 0, 900, 0, &nobody));
    if (ut_rank == 1) {
        while (*ut_cell(0) == 0) {
            ut_expect_nothing(end.vcq);
            ut_relax();
        }
        if (dies)
            raise(SIGKILL);
        CHECK_OK(utofu_free_vcq(end.vcq));
        while (*ut_cell(0) == 1)
            ut_relax();
        return;
    }
    CHECK_OK(utofu_put_piggyback8(end.vcq, peers[1].id, 1, peers[1].stadd, 8, 9, UT_LCL, NULL));
    CHECK_OK(ut_await_mrq(end.vcq, &notice));
    FAILS(put_to(nobody), UTOFU_ERR_MRQ_PEER, "put of 8 bytes with EDATA 9", id_text(nobody),
          "CQ 900", "no process of the job");
    FAILS(put_to(none), UTOFU_ERR_MRQ_PEER, id_text(none), "rank 1", "TNI 5, CQ 4, component 1",
          "its process has no such VCQ, which was freed, or not created within 1 s");
    *ut_cell(0) = 1;
    FAILS(put_until_it_fails(), UTOFU_ERR_MRQ_PEER, id_text(peers[1].id), "rank 1",
          stadd_text(peers[1].stadd), what);
    FAILS(put_to(peers[1].id), UTOFU_ERR_MRQ_PEER, "rank 1", what);
    *ut_cell(0) = 2;
}

Test(last_error, peers_that_are_gone_are_named)
{
    for (int dies = 0; dies < 2; dies++) {
        bool arg = dies;
        ut_run(&(struct ut_run_opts){.n = 2,
                                     .may_die = dies ? 1u << 1 : 0,
                                     .env = {"UTOFU_PEER_TIMEOUT=1"}},
               peer_leaves, &arg);
    }
}

/* Bad values in the environment, several times and in every thread */

static void *fails_in_a_thread(void *arg)
{
    utofu_vcq_hdl_t vcq;

    (void)arg;
    FAILS(utofu_create_vcq(0, 0, &vcq), UTOFU_ERR_FATAL, "UTOFU_ARMW", "'quick'", "cpu|nic|auto");
    return NULL;
}

static void bad_value(void *arg)
{
    utofu_vbg_id_t gate;
    uint8_t coords[6];
    pthread_t thread;

    (void)arg;
    FAILS(utofu_query_my_coords(coords), UTOFU_ERR_FATAL, "UTOFU_ARMW", "'quick'", "cpu|nic|auto");
    FAILS(utofu_alloc_vbg(0, 1, 0, &gate), UTOFU_ERR_FATAL, "UTOFU_ARMW", "'quick'");
    fails_in_a_thread(NULL);
    CHECK_EQ(pthread_create(&thread, NULL, fails_in_a_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void bad_map(void *arg)
{
    uint8_t coords[6];

    (void)arg;
    FAILS(utofu_query_my_coords(coords), UTOFU_ERR_FATAL, "UTOFU_CQ_MAP=round");
    FAILS(utofu_query_my_coords(coords), UTOFU_ERR_FATAL, "UTOFU_CQ_MAP=round");
}

static void shared_cq(void *arg)
{
    uint8_t coords[6];

    FAILS(utofu_query_my_coords(coords), UTOFU_ERR_FATAL, arg, "more than once");
}

static void own_cqs(void *arg)
{
    uint8_t coords[6];

    (void)arg;
    CHECK_OK(utofu_query_my_coords(coords));
}

Test(last_error, a_cq_is_given_to_one_process)
{
    char in_one_list[] = "gives CQ 3", in_two[] = "gives CQ 11";

    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_CQ_MAP=3,4,3"}}, shared_cq, in_one_list);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_CQ_MAP=1,11/11,2"}}, shared_cq, in_two);
    ut_run(&(struct ut_run_opts){.n = 2, .env = {"UTOFU_CQ_MAP=1,11/111,2"}}, own_cqs, NULL);
}

Test(last_error, bad_environment_values_are_said_by_every_call)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_ARMW=quick"}}, bad_value, NULL);
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_CQ_MAP=round"}}, bad_map, NULL);
}

/* Threads, and children */

static void *sees_nothing(void *arg)
{
    (void)arg;
    utofu_get_last_error(text);
    CHECK(text[0] == '\0', "another thread's: %s", text);
    return NULL;
}

static void threads_apart(void *arg)
{
    utofu_vcq_hdl_t vcq;
    pthread_t thread;
    uint8_t coords[6];

    (void)arg;
    utofu_get_last_error(text);
    CHECK(text[0] == '\0', "before any call: %s", text);
    CHECK_OK(utofu_query_my_coords(coords));
    CHECK_RC(utofu_create_vcq(0, 0, NULL), UTOFU_ERR_INVALID_POINTER);
    CHECK_EQ(pthread_create(&thread, NULL, sees_nothing, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_OK(utofu_create_vcq(0, 0, &vcq));
    const char *marker = leave_marker();
    pid_t child = fork();
    if (child == 0) {
        utofu_get_last_error(text);
        CHECK(strstr(text, marker) != NULL, "the parent's text: %s", text);
        FAILS(utofu_nop(vcq, 0, NULL), UTOFU_ERR_INVALID_VCQ_HDL, "fork()");
        FAILS(utofu_query_my_coords(coords), UTOFU_ERR_NOT_AVAILABLE, "fork()");
        _exit(0);
    }
    int status = 1;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    utofu_get_last_error(text);
    CHECK(strstr(text, marker) != NULL, "the child's text: %s", text);
    CHECK_OK(utofu_free_vcq(vcq));
}

Test(last_error, belongs_to_the_thread_and_knows_forks)
{
    ut_run(&(struct ut_run_opts){.n = 1}, threads_apart, NULL);
}

/* The memory of a thread's text */

static size_t own_size_kib(void)
{
    char line[128];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/status", "re");

    CHECK(f != NULL);
    while (kib == 0 && fgets(line, sizeof(line), f))
        sscanf(line, "VmSize: %zu kB", &kib);
    fclose(f);
    CHECK(kib > 0);
    return kib;
}

static pthread_key_t at_end;

/* A destructor of the program: it has the thread's text, and an error of its own. */
static void end_thread(void *marker)
{
    utofu_get_last_error(text);
    CHECK(strstr(text, marker) != NULL, "%s is not in: %s", (char *)marker, text);
    leave_marker();
}

static void *fails_and_ends(void *arg)
{
    (void)arg;
    CHECK_EQ(pthread_setspecific(at_end, leave_marker()), 0);
    return NULL;
}

static void many_threads(void *arg)
{
    enum { FIRST = 50, THREADS = 1000 };
    size_t before = 0;
    pthread_t thread;

    (void)arg;
    CHECK_EQ(pthread_key_create(&at_end, end_thread), 0);
    for (int i = 0; i < FIRST + THREADS; i++) {
        if (i == FIRST)
            before = own_size_kib();
        CHECK_EQ(pthread_create(&thread, NULL, fails_and_ends, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    size_t after = own_size_kib();
    CHECK(after < before + THREADS, "%d threads: %zu KiB before, %zu after", THREADS, before,
          after);
}

Test(last_error, memory_of_a_thread_ends_with_it)
{
    ut_run(&(struct ut_run_opts){.n = 1, .env = {"UTOFU_LOG_LEVEL=none"}}, many_threads, NULL);
}

static void fail_in_handler(int number)
{
    (void)number;
    leave_marker();
}

/* The first error of this thread is that of a signal handler. */
static void *is_interrupted(void *arg)
{
    (void)arg;
    CHECK(signal(SIGUSR1, fail_in_handler) != SIG_ERR);
    CHECK_EQ(raise(SIGUSR1), 0);
    utofu_get_last_error(text);
    CHECK(strncmp(text, "UTOFU_ERR_INVALID_VCQ_ID", 24) == 0, "the handler's: %s", text);
    leave_marker();
    return NULL;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they map memory themselves  \
                                                                     */
/* No memory for a text: the code is told in any case, and the next error has its text. */
static void *has_no_memory(void *arg)
{
    struct rlimit old, none;
    utofu_stadd_t stadd;

    (void)arg;
    CHECK_EQ(getrlimit(RLIMIT_AS, &old), 0);
    none = (struct rlimit){.rlim_cur = 1 << 20, .rlim_max = old.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
    int rc = utofu_query_stadd(7, 0, &stadd);
    CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
    CHECK_EQ(rc, UTOFU_ERR_INVALID_VCQ_ID);
    utofu_get_last_error(text);
    CHECK(strncmp(text, "UTOFU_ERR_INVALID_VCQ_ID", 24) == 0 && strstr(text, "out of memory"),
          "without memory: %s", text);
    leave_marker();
    return NULL;
}
#else
#    define has_no_memory is_interrupted
#endif

static void first_errors(void *arg)
{
    void *(*const bodies[])(void *) = {is_interrupted, has_no_memory};
    pthread_t thread;

    (void)arg;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        CHECK_EQ(pthread_create(&thread, NULL, bodies[i], NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
}

Test(last_error, first_one_of_a_thread_may_be_a_handlers_or_lack_memory)
{
    ut_run(&(struct ut_run_opts){.n = 1}, first_errors, NULL);
}
