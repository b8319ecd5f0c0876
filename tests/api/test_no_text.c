/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where what is below the API fails without a text, utofu_get_last_error() has one of the call, and
 * not the text of an earlier error with the new code. The linker puts functions of this test in the
 * place of the library's (--wrap), which fail when they shall.
 */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "barrier/gate.h"
#include "process/process.h"
#include "runtime/lifecycle.h"
#include "runtime/setup.h"
#include "stag/stag.h"
#include "stats/region.h"
#include "utofu.h"
#include "utofu_ext.h"

TestSuite(no_text);

static bool fails;

#define REPLACED(name, parameters, arguments)                                                      \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters                                                                   \
    {                                                                                              \
        return fails ? UTOFU_ERR_OUT_OF_RESOURCE : __real_##name arguments;                        \
    }

REPLACED(ut_vcq_create, (unsigned int tni, int cmp, unsigned long flags, utofu_vcq_hdl_t *vcq),
         (tni, cmp, flags, vcq))
REPLACED(ut_runtime_start, (const struct ut_process **process), (process))
REPLACED(ut_region_start, (const char *name), (name))
REPLACED(ut_region_stop, (const char *name), (name))
REPLACED(ut_gate_alloc, (unsigned int tni, size_t count, utofu_vbg_id_t *ids), (tni, count, ids))
REPLACED(ut_gate_free, (const utofu_vbg_id_t *ids, size_t count), (ids, count))
REPLACED(ut_gate_set, (const struct utofu_vbg_setting *settings, size_t count), (settings, count))
REPLACED(ut_stag_reuse,
         (struct ut_stag_table * table, void *addr, size_t size, uint32_t stag, bool writable,
          utofu_stadd_t *stadd),
         (table, addr, size, stag, writable, stadd))

static void leave_text(void)
{
    struct utofu_onesided_caps *caps;

    cr_assert_eq(utofu_query_onesided_caps(6, &caps), UTOFU_ERR_INVALID_TNI_ID);
}

/* The call fails, and this is its text. */
#define FAILS(call, words)                                                                         \
    do {                                                                                           \
        char text[1024] = "";                                                                      \
        leave_text();                                                                              \
        fails = true;                                                                              \
        cr_assert_eq(call, UTOFU_ERR_OUT_OF_RESOURCE);                                             \
        fails = false;                                                                             \
        utofu_get_last_error(text);                                                                \
        cr_assert_eq(strncmp(text, "UTOFU_ERR_OUT_OF_RESOURCE (", 27), 0, "%s: %s", #call, text);  \
        cr_assert_not_null(strstr(text, words), "%s: %s", #call, text);                            \
        cr_assert_null(strstr(text, "TNI 6"), "%s: %s", #call, text);                              \
    } while (0)

/* Before the process has found its job. */
Test(no_text, of_a_library_that_cannot_be_set_up)
{
    struct utofu_job job;
    uint8_t coords[6] = {0};
    utofu_vcq_id_t id;
    uint32_t node;

    FAILS(utofu_query_my_coords(coords), "the library cannot be set up");
    FAILS(utofu_construct_vcq_id(coords, 0, 0, 0, &id), "the library cannot be set up");
    FAILS(utofu_query_job(&job), "the library cannot be set up");
    FAILS(utofu_query_rank_node(0, &node, coords), "the library cannot be set up");
}

Test(no_text, of_vcqs_and_memory)
{
    static uint8_t memory[4096] __attribute__((aligned(256)));
    utofu_vcq_hdl_t vcq;
    utofu_stadd_t stadd;

    cr_assert_eq(utofu_create_vcq(0, 0, &vcq), 0);
    FAILS(utofu_create_vcq(3, 0, &vcq), "cannot create a VCQ on TNI 3");
    FAILS(utofu_create_vcq_with_cmp_id(4, 1, 0, &vcq), "cannot create a VCQ on TNI 4");
    FAILS(utofu_reg_mem(vcq, memory, sizeof(memory), 0, &stadd), "4096 bytes at");
    FAILS(utofu_reg_mem_with_stag(vcq, memory, sizeof(memory), 5, 0, &stadd), "4096 bytes at");
    cr_assert_eq(utofu_free_vcq(vcq), 0);
}

Test(no_text, of_gates)
{
    struct utofu_vbg_setting setting = {0};
    utofu_vbg_id_t id = 0;

    FAILS(utofu_alloc_vbg(2, 1, 0, &id), "cannot allocate VBGs on TNI 2");
    FAILS(utofu_free_vbg(&id, 1), "the VBGs cannot be freed");
    FAILS(utofu_set_vbg(&setting, 1), "the VBGs cannot be set");
}

Test(no_text, of_regions)
{
    setenv("UTOFU_STATS", "1", 1);
    FAILS(utofu_profile_start("loop"), "the region 'loop' cannot be started");
    FAILS(utofu_profile_stop("loop"), "the region 'loop' cannot be stopped");
}
