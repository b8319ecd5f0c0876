/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How communications end (engine/retire.c): the code for each error of a provider, and which of
 * them are tried again; remote notices that wait for local ones; and the end of all communications
 * of a link.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/posting.h"
#include "engine/retire.h"
#include "link/link.h"
#include "stag/stag.h"

enum { TOQ = 16, STADD = 4096 };

static struct ut_vcq vcq;
static struct ut_link link_of_test;
static unsigned int num_invalidated;

void __wrap_ut_link_invalidate_stag(struct ut_link *link, utofu_stadd_t stadd);
void __wrap_ut_link_invalidate_stag(struct ut_link *link, utofu_stadd_t stadd)
{
    cr_assert(link == &link_of_test && stadd == STADD);
    num_invalidated++;
}

struct ut_failure __wrap_ut_link_error_cause(const struct ut_link *link, utofu_stadd_t stadd,
                                             uint64_t length, bool write);
struct ut_failure __wrap_ut_link_error_cause(const struct ut_link *link, utofu_stadd_t stadd,
                                             uint64_t length, bool write)
{
    (void)link, (void)stadd, (void)length, (void)write;
    return (struct ut_failure){0};
}

struct ut_failure __wrap_ut_stag_failure_cause(const struct ut_stag_table *table,
                                               utofu_stadd_t stadd, uint64_t length, bool write);
struct ut_failure __wrap_ut_stag_failure_cause(const struct ut_stag_table *table,
                                               utofu_stadd_t stadd, uint64_t length, bool write)
{
    (void)table, (void)stadd, (void)length, (void)write;
    return (struct ut_failure){0};
}

static struct ut_slot *add(uint32_t number, unsigned int kind, unsigned long flags)
{
    struct ut_slot *slot = &vcq.toq[number];

    memset(slot, 0, sizeof(*slot));
    ut_desc_head(&slot->desc, (enum ut_desc_kind)kind, link_of_test.peer, STADD, 64, number, flags);
    ut_link_append(&link_of_test, slot, number, flags & UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);
    slot->state = UT_SLOT_POSTED;
    return slot;
}

static void begin(void)
{
    vcq.mrq_head = vcq.mrq_tail = 0;
    vcq.scheduled_links = NULL;
    num_invalidated = 0;
    link_of_test = (struct ut_link){.vcq = &vcq, .peer = 77, .state = UT_LINK_UP};
    link_of_test.first = link_of_test.to_post = UT_NO_SLOT;
    link_of_test.list_end = &link_of_test.first;
    link_of_test.reading = UT_STAG_NONE;
    link_of_test.unacked_last = &link_of_test.unacked_first;
    link_of_test.early_last = &link_of_test.early_first;
}

static void open_link(void)
{
    vcq.toq = calloc(TOQ, sizeof(*vcq.toq));
    vcq.toq_mask = TOQ - 1;
    vcq.mrq = calloc(TOQ, sizeof(*vcq.mrq));
    vcq.mrq_mask = TOQ - 1;
    vcq.mrq_alarm = TOQ;
    vcq.runs_scheduled = true;
    ut_lock(&vcq.lock);
    begin();
}

TestSuite(retire, .init = open_link);

/*
 * Errors of the provider
 */

Test(retire, status_of_a_request_gives_its_code)
{
    static const struct {
        enum prov_status status;
        unsigned int kind;
        bool tcq_ready;
        uint8_t retries;
        int tcq, mrq;
    } all[] = {
        {PROV_RMT_ACCESS, UT_DESC_PUT, false, 0, 0, 0}, /* with the entry read again */
        {PROV_RMT_ACCESS, UT_DESC_PUT, false, 1, 0, UTOFU_ERR_MRQ_RMT_MEMORY},
        {PROV_RMT_FAULT, UT_DESC_PUT, false, 0, 0, UTOFU_ERR_MRQ_RMT_MEMORY},
        {PROV_LCL_ACCESS, UT_DESC_PUT, false, 0, UTOFU_ERR_TCQ_MEMORY, 0},
        {PROV_LCL_ACCESS, UT_DESC_PUT, true, 0, 0, UTOFU_ERR_MRQ_LCL_MEMORY},
        {PROV_LCL_ACCESS, UT_DESC_GET, false, 0, 0, UTOFU_ERR_MRQ_LCL_MEMORY},
        {PROV_FAILED, UT_DESC_GET, true, 0, 0, UTOFU_ERR_MRQ_OTHER},
        {PROV_PEER, UT_DESC_PUT, false, 0, 0, 0},
        {PROV_FLUSHED, UT_DESC_PUT, false, 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        begin();
        struct ut_slot *slot = add(3, all[i].kind, 0);
        slot->tcq_ready = all[i].tcq_ready;
        slot->retries = all[i].retries;
        bool ends = all[i].tcq || all[i].mrq;
        cr_assert_eq(ut_engine_handle_error(&link_of_test, slot, all[i].status), ends, "%zu", i);
        cr_assert(slot->tcq_rc == all[i].tcq && slot->mrq_rc == all[i].mrq, "%zu", i);
        cr_assert_eq(num_invalidated, i == 0);
        cr_assert_eq(slot->retries, all[i].retries + (all[i].status == PROV_RMT_ACCESS));
    }
}

Test(retire, refusal_is_tried_again_or_gives_its_code)
{
    static const struct {
        int rc;
        unsigned int kind;
        uint8_t retries;
        bool schedules;
        int tcq, mrq;
    } all[] = {
        {-EAGAIN, UT_DESC_PUT, 0, true, 0, 0},
        {-ENOTCONN, UT_DESC_PUT, 0, false, 0, 0},
        {-EACCES, UT_DESC_PUT, 0, true, 0, 0},
        {-EACCES, UT_DESC_PUT, 1, false, 0, UTOFU_ERR_MRQ_RMT_MEMORY},
        {-EFAULT, UT_DESC_PUT, 0, false, 0, UTOFU_ERR_MRQ_RMT_MEMORY},
        {-EPERM, UT_DESC_PUT, 0, false, UTOFU_ERR_TCQ_MEMORY, 0},
        {-EPERM, UT_DESC_GET, 0, false, 0, UTOFU_ERR_MRQ_LCL_MEMORY},
        {-ENOMEM, UT_DESC_PUT, 0, false, 0, UTOFU_ERR_MRQ_OTHER},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        begin();
        struct ut_slot *slot = add(3, all[i].kind, 0);
        slot->state = UT_SLOT_WAITING;
        slot->retries = all[i].retries;
        slot->stag_reread = true;
        bool ends = all[i].tcq || all[i].mrq;
        cr_assert_eq(ut_post_handle_refusal(&link_of_test, slot, all[i].rc),
                     ends ? UT_POSTED : UT_NOT_NOW, "%zu", i);
        cr_assert(slot->tcq_rc == all[i].tcq && slot->mrq_rc == all[i].mrq, "%zu", i);
        cr_assert_eq(link_of_test.is_scheduled, all[i].schedules, "%zu", i);
        cr_assert_eq(slot->state, ends ? UT_SLOT_RETIRED : UT_SLOT_WAITING, "%zu", i);
        cr_assert_eq(num_invalidated, all[i].rc == -EACCES && all[i].retries == 0);
        cr_assert_eq(slot->stag_reread, num_invalidated == 0);
        cr_assert_eq(vcq.mrq_tail, all[i].mrq != 0, "an error of the MRQ has a notice");
    }
}

/* A communication that fails while a request is outstanding ends with that request. */
Test(retire, failed_slot_ends_behind_its_requests_and_those_before_it)
{
    struct ut_slot *first = add(2, UT_DESC_PUT, 0), *slot = add(3, UT_DESC_PUT, 0);

    slot->pending = 1;
    slot->state = UT_SLOT_WAITING;
    ut_post_fail(&link_of_test, slot, UTOFU_ERR_MRQ_OTHER);
    cr_assert(slot->state == UT_SLOT_POSTED && vcq.completions_wanted && vcq.mrq_tail == 0);
    slot->pending = 0;
    vcq.completions_wanted = false;
    ut_engine_finish(&link_of_test, slot);
    cr_assert(slot->state == UT_SLOT_DONE && vcq.completions_wanted && vcq.spin_limit == 0);
    vcq.completions_wanted = false;
    ut_engine_finish(&link_of_test, first);
    cr_assert(first->state == UT_SLOT_RETIRED && slot->state == UT_SLOT_RETIRED);
    cr_assert(link_of_test.first == UT_NO_SLOT && link_of_test.list_end == &link_of_test.first);
    cr_assert(vcq.mrq_tail == 1 && !vcq.completions_wanted);
}

/* An ARMW completes by itself. */
Test(retire, armw_needs_no_empty_write)
{
    add(2, UT_DESC_ARMW, 0);
    ut_engine_finish(&link_of_test, add(3, UT_DESC_PUT, 0));
    cr_assert(!vcq.completions_wanted);
}

/*
 * Notices
 */

/* Remote notices that arrived behind the start of two, one and no communication with a local
 * notice. Their numbers wrap around. */
Test(retire, early_notices_come_behind_the_local_ones_before_them)
{
    const unsigned long local = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE;
    struct utofu_mrq_notice n;

    link_of_test.lcl_notices_begun = link_of_test.lcl_notices_ended = UINT32_MAX;
    struct ut_slot *first = add(1, UT_DESC_PUT, local);
    ut_engine_remote_notice(&link_of_test, UTOFU_MRQ_TYPE_RMT_PUT, 101, 0, 500);
    struct ut_slot *second = add(2, UT_DESC_GET, local);
    ut_engine_remote_notice(&link_of_test, UTOFU_MRQ_TYPE_RMT_PUT, 102, 0, 600);
    ut_engine_remote_notice(&link_of_test, UTOFU_MRQ_TYPE_RMT_GET, 103, 700, 0);
    cr_assert_eq(vcq.mrq_tail, 0);
    ut_engine_finish(&link_of_test, second);
    cr_assert_eq(vcq.mrq_tail, 0);
    first->mrq_rc = UTOFU_ERR_MRQ_OTHER; /* its notice has the code */
    ut_engine_finish(&link_of_test, first);
    static const unsigned int order[] = {1, 101, 2, 102, 103};
    for (int i = 0; i < 5; i++) {
        const struct utofu_mrq_notice *entry = ut_mrq_pop(&vcq, &n);
        cr_assert(entry && n.edata == order[i] && n.vcq_id == 77, "%d", i);
        cr_assert_eq(ut_mrq_code(entry), i == 0 ? UTOFU_ERR_MRQ_OTHER : 0);
    }
    cr_assert_null(ut_mrq_pop(&vcq, &n));
    cr_assert(!link_of_test.early_first && link_of_test.early_last == &link_of_test.early_first);
    cr_assert_eq(link_of_test.lcl_notices_ended, 1);
}

/* A failed communication whose code is in the TCQ has no notice. */
Test(retire, error_of_the_tcq_has_no_notice)
{
    struct ut_slot *slot = add(1, UT_DESC_PUT, UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE);

    slot->tcq_rc = UTOFU_ERR_TCQ_MEMORY;
    ut_engine_finish(&link_of_test, slot);
    cr_assert(vcq.mrq_tail == 0 && slot->tcq_ready && link_of_test.lcl_notices_ended == 1);
}

/*
 * The end of all
 */

/* An answer to an ARMW may arrive after its slot has another communication: it belongs to an
 * earlier epoch then. */
Test(retire, all_communications_of_a_link_fail)
{
    static const struct {
        unsigned int kind, stage;
        bool owed, done, answers_late;
    } all[] = {{UT_DESC_ARMW, UT_STAGE_NONE, false, false, false},
               {UT_DESC_ARMW, UT_STAGE_DATA, false, false, true},
               {UT_DESC_ARMW, UT_STAGE_NONE, true, false, true},
               {UT_DESC_ARMW, UT_STAGE_DATA, false, true, false},
               {UT_DESC_PUT, UT_STAGE_DATA, false, false, false}};

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        begin();
        struct ut_slot *first = add(1, UT_DESC_PUT, 0), *slot = add(2, all[i].kind, 0);
        struct ut_slot *last = add(3, UT_DESC_GET, 0);
        slot->stage = all[i].stage & 63;
        slot->reply_owed = all[i].owed;
        slot->state = all[i].done ? UT_SLOT_DONE : UT_SLOT_POSTED;
        first->pending = slot->pending = last->pending = 1;
        link_of_test.to_post = 3;
        link_of_test.unordered_out = 2;
        link_of_test.reads_out = 2;
        link_of_test.armw_epoch = 8;
        ut_engine_fail_all(&link_of_test, UTOFU_ERR_MRQ_PEER);
        cr_assert(first->state == UT_SLOT_RETIRED && slot->state == UT_SLOT_RETIRED &&
                  last->state == UT_SLOT_RETIRED);
        cr_assert(first->mrq_rc == UTOFU_ERR_MRQ_PEER && last->mrq_rc == UTOFU_ERR_MRQ_PEER);
        cr_assert_eq(slot->mrq_rc, all[i].done ? 0 : UTOFU_ERR_MRQ_PEER);
        cr_assert(first->pending == 0 && last->pending == 0);
        cr_assert(link_of_test.to_post == UT_NO_SLOT && link_of_test.unordered_out == 0 &&
                  link_of_test.reads_out == 0);
        cr_assert_eq(link_of_test.armw_epoch, 8u + all[i].answers_late, "%zu", i);
    }
}
