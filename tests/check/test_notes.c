/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notes of the check mode at the end of a process, each as a whole line, one below its limit
 * and above it: for descriptors and VCQs that this test makes up. The linker puts functions of the
 * test in the place of those that write and look up names (--wrap).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "check/inner.h"

TestSuite(notes);

static char written[1 << 14];
static size_t used;

void __wrap_ut_check_write(const char *text, size_t size);
void __wrap_ut_check_write(const char *text, size_t size)
{
    cr_assert(used + size < sizeof(written));
    memcpy(written + used, text, size);
    used += size;
    written[used] = '\0';
}

void __wrap_ut_check_symbolize(const void *address, char *buf, size_t size);
void __wrap_ut_check_symbolize(const void *address, char *buf, size_t size)
{
    snprintf(buf, size, "f%u() at x.c:7", (unsigned int)(uintptr_t)address);
}

static struct ut_process process = {.num_session = 3};
static bool has_process = true;

const struct ut_process *__wrap_ut_process_peek(void);
const struct ut_process *__wrap_ut_process_peek(void)
{
    return has_process ? &process : NULL;
}

static struct ut_job_info job = {.rank = 0, .size = 9, .local_size = 1};
static struct ut_check check;
static struct ut_slot toq[8];
static uint32_t most_mrq;
static struct ut_vcq vcq;

static void begin(void)
{
    ut_check_job = &job;
    ut_check_on = true;
    check = (struct ut_check){.polls = 1};
    most_mrq = 0;
    vcq = (struct ut_vcq){.toq = toq,
                          .toq_mask = 7,
                          .check = &check,
                          .mrq_entries = 100,
                          .mrq_most = &most_mrq,
                          .tni = 2,
                          .cq_index = 1};
}

static const char *notes(void)
{
    used = 0;
    written[0] = '\0';
    ut_check_print_notes();
    return written;
}

#define NOTE(text) "utofu: check: note: " text "\n"

static utofu_vcq_id_t id_of(unsigned int cq)
{
    return ut_vcq_id_pack(&(struct ut_vcq_ident){.tni = 2, .cq = (uint16_t)cq, .cmp = 1});
}

Test(notes, none_without_a_reason_and_those_of_rank_0_alone)
{
    begin();
    cr_assert_str_eq(notes(), "");
    ut_check_extension();
    job.rank = 1;
    cr_assert_str_eq(notes(), "");
    job.rank = 0;
    cr_assert_str_eq(notes(), NOTE("1 call was of a function of utofu_ext.h, which Fugaku does not "
                                   "have"));
    ut_check_on = false;
    ut_check_extension();
    ut_check_on = true;
    ut_check_extension();
    cr_assert_str_eq(notes(),
                     NOTE("2 calls were of functions of utofu_ext.h, which Fugaku does not "
                          "have"));
}

/*
 * Communications
 */

enum {
    TCQ = UTOFU_ONESIDED_FLAG_TCQ_NOTICE,
    LCL = UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE,
    RMT = UTOFU_ONESIDED_FLAG_REMOTE_MRQ_NOTICE,
    STRONG = UTOFU_ONESIDED_FLAG_STRONG_ORDER,
    INJECT = UTOFU_ONESIDED_FLAG_CACHE_INJECTION,
    PAD = UTOFU_ONESIDED_FLAG_PADDING,
    RESPONSE = UTOFU_ONESIDED_FLAG_PACKET_RESPONSE,
};

static void note_of(unsigned int kind, unsigned int flags, uint32_t word, uint16_t mtu,
                    uint16_t gap, utofu_vcq_id_t id)
{
    struct ut_slot slot = {
        .desc = {.kind = (uint8_t)kind, .flags = (uint16_t)flags, .word = word, .rmt_vcq_id = id}};

    if (kind == UT_DESC_PUT || kind == UT_DESC_GET) {
        slot.desc.mtu = mtu;
        slot.desc.gap = gap;
    }
    ut_check_note_comm(&check, &slot);
}

static void put(unsigned int flags)
{
    note_of(UT_DESC_PUT, flags, 8, UT_MAX_MTU, 0, id_of(1));
}

#define PACE      " had a gap or an MTU, which have no effect here (2.2.9)"
#define PATH      " had a path, which has no effect on routing here (3.5)"
#define INJECTION " had CACHE_INJECTION, which has no effect here (2.2.11)"
#define WEAK      " without PADDING: they do not reach the cache there (2.2.11)"
#define PADDING                                                                                    \
    " had PADDING: there the rest of the cache line at the target gets undefined bytes, here it "  \
    "stays unchanged (2.2.11)"

Test(notes, flags_of_one_communication)
{
    static const struct {
        unsigned int kind, flags;
        uint32_t word;
        uint16_t mtu, gap;
        const char *want;
    } all[] = {
        {UT_DESC_PUT, TCQ, 8, UT_MAX_MTU, 0, ""},
        {UT_DESC_PUT, TCQ, 8, UT_MAX_MTU, 1, NOTE("1 put or get" PACE)},
        {UT_DESC_GET, TCQ, 8, UT_MAX_MTU - 1, 0, NOTE("1 put or get" PACE)},
        {UT_DESC_ARMW, TCQ, 8, 0, 0, ""},
        {UT_DESC_PIGGYBACK, TCQ, 8, 0, 0, ""},
        {UT_DESC_NOP, TCQ | INJECT | RESPONSE, 8 | 1u << 28, 0, 0, ""},
        {UT_DESC_ARMW, TCQ, 8 | 1u << 28, 0, 0, NOTE("1 communication" PATH)},
        {UT_DESC_ARMW, TCQ | RESPONSE, 8, 0, 0,
         NOTE("1 communication had PACKET_RESPONSE, which the manual does not describe, and which "
              "has no effect here")},
        {UT_DESC_PUT, TCQ | INJECT, 8, UT_MAX_MTU, 0, NOTE("1 communication" INJECTION)},
        {UT_DESC_PUT, TCQ | PAD, 8, UT_MAX_MTU, 0, ""},
        {UT_DESC_PIGGYBACK, TCQ | INJECT, 8, 0, 0,
         NOTE("1 communication" INJECTION) NOTE("1 of them was a piggyback put" WEAK)},
        {UT_DESC_PIGGYBACK, TCQ | INJECT | PAD, 8, 0, 0,
         NOTE("1 communication" INJECTION) NOTE("1 put" PADDING)},
        {UT_DESC_PIGGYBACK, TCQ | PAD, 8, 0, 0, NOTE("1 put" PADDING)},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        pid_t child = fork(); /* the counters are those of a process */
        if (child == 0) {
            begin();
            note_of(all[i].kind, all[i].flags, all[i].word, all[i].mtu, all[i].gap, id_of(1));
            ut_check_note_end(&vcq);
            bool equal = strcmp(notes(), all[i].want) == 0;
            if (!equal)
                fprintf(stderr, "%zu: %s", i, written);
            _exit(!equal);
        }
        int status;
        cr_assert(waitpid(child, &status, 0) == child && status == 0, "%zu", i);
    }
}

Test(notes, flags_of_several_communications)
{
    begin();
    for (int i = 0; i < 2; i++) {
        note_of(UT_DESC_PUT, TCQ | INJECT, 8, 1, 1, id_of(1));
        note_of(UT_DESC_PIGGYBACK, TCQ | INJECT | RESPONSE, 8, 0, 0, id_of(1));
        note_of(UT_DESC_PIGGYBACK, TCQ | PAD, 8 | 1u << 28, 0, 0, id_of(1));
    }
    cr_assert_str_eq(
        notes(), NOTE("2 puts and gets" PACE) NOTE("2 communications" PATH)
                     NOTE("4 communications" INJECTION) NOTE("2 of them were piggyback puts" WEAK)
                         NOTE("2 puts" PADDING)
                             NOTE("2 communications had PACKET_RESPONSE, which the manual does not "
                                  "describe, and which has no effect here"));
}

Test(notes, path_of_an_id)
{
    struct ut_vcq_ident ident = {.tni = 2, .cq = 1, .cmp = 1, .path = {1, 2, 1}};

    begin();
    note_of(UT_DESC_PUT, TCQ, 8, UT_MAX_MTU, 0, ut_vcq_id_pack(&ident));
    cr_assert_str_eq(notes(), NOTE("1 communication" PATH));
}

Test(notes, paths_of_gates)
{
    struct utofu_vbg_setting settings[3];

    begin();
    memset(settings, 0, sizeof(settings));
    for (int i = 0; i < 3; i++)
        settings[i].dst_path_coords[0] = UTOFU_PATH_COORD_NULL;
    settings[1].dst_path_coords[0] = 1;
    settings[1].dst_rmt_vbg_id = settings[2].dst_rmt_vbg_id = UTOFU_VBG_ID_NULL;
    settings[2].dst_path_coords[0] = 1;
    ut_check_set_gates(settings, 3);
    cr_assert_str_eq(notes(), "", "a path, or a destination, but not both");
    settings[1].dst_rmt_vbg_id = 7;
    ut_check_set_gates(settings, 3);
#define GATES " set with a path, which has no effect on routing here (3.4.4.1)"
    cr_assert_str_eq(notes(), NOTE("1 gate was" GATES));
    ut_check_set_gates(settings, 3);
    cr_assert_str_eq(notes(), NOTE("2 gates were" GATES));
}

/*
 * Puts of which nothing shows that they have arrived
 */

#define UNASKED                                                                                    \
    " had no notice, and no put with a notice and STRONG_ORDER followed them: nothing shows when " \
    "their data have arrived (2.2.10, 3.7)"

Test(notes, puts_without_a_notice)
{
    static const struct {
        unsigned int kind, flags, length;
        unsigned int left; /* of two puts before it, and itself */
    } all[] = {
        {UT_DESC_PUT, 0, 8, 3},
        {UT_DESC_PUT, STRONG, 8, 3},
        {UT_DESC_PUT, TCQ, 8, 2},
        {UT_DESC_PUT, LCL, 8, 2},
        {UT_DESC_PUT, RMT, 8, 2},
        {UT_DESC_PUT, RMT | STRONG, 8, 0},
        {UT_DESC_PUT, TCQ | STRONG, 8, 0},
        {UT_DESC_PUT, LCL | STRONG, 8, 0},
        {UT_DESC_GET, 0, 8, 2},
        {UT_DESC_ARMW, 0, 8, 2},
        {UT_DESC_ARMW, STRONG | LCL, 8, 0},
        {UT_DESC_PIGGYBACK, 0, 8, 3},
        {UT_DESC_PIGGYBACK, STRONG, 8, 0}, /* a word that the target polls */
        {UT_DESC_PIGGYBACK, STRONG, 9, 3},
        {UT_DESC_PIGGYBACK, TCQ, 8, 2},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        begin();
        put(0);
        put(0);
        note_of(all[i].kind, all[i].flags, all[i].length, UT_MAX_MTU, 0, id_of(1));
        uint64_t left = 0;
        for (int u = 0; u < 64; u++)
            left += check.unasked[u].count;
        cr_assert_eq(left, all[i].left, "%zu", i);
    }
}

Test(notes, puts_without_a_notice_are_added_up)
{
    begin();
    put(0);
    ut_check_note_end(&vcq);
    cr_assert_str_eq(notes(), NOTE("1 put" UNASKED));
    begin();
    for (unsigned int cq = 1; cq <= 2; cq++)
        note_of(UT_DESC_PUT, 0, 8, UT_MAX_MTU, 0, id_of(cq));
    ut_check_note_end(&vcq);
    cr_assert_str_eq(notes(), NOTE("3 puts" UNASKED));
}

/* Two VCQs whose puts are counted at the same place. */
Test(notes, later_vcq_takes_the_place_of_an_earlier_one)
{
    uint64_t index = ut_hash_index(ut_vcq_id_key(id_of(1)), 6);
    unsigned int cq = 2;

    begin();
    while (ut_hash_index(ut_vcq_id_key(id_of(cq)), 6) != index)
        cq++;
    put(0);
    put(0);
    note_of(UT_DESC_PUT, 0, 8, UT_MAX_MTU, 0, id_of(cq));
    ut_check_note_end(&vcq);
    cr_assert_str_eq(notes(), NOTE("1 put" UNASKED));
}

/*
 * Queues
 */

Test(notes, entries_that_nobody_polled)
{
    begin();
    vcq.mrq_head = 5;
    vcq.mrq_tail = 6;
    vcq.tcq_head = 6;
    vcq.toq_exec = 9;
    vcq.toq_tail = 10;
    toq[7].desc.flags = TCQ; /* of 6, 7 and 8 */
    toq[0].desc.flags = LCL;
    toq[1].desc.flags = TCQ; /* not started */
    toq[5].desc.flags = TCQ; /* polled */
    ut_check_note_end(&vcq);
    cr_assert_str_eq(
        notes(),
        NOTE("1 TCQ entry was requested and never polled (3.7)")
            NOTE("1 MRQ notice came and was never polled: a full MRQ ends the program (3.7)")
                NOTE("1 descriptor of a session-mode VCQ was never started (2.2.8.1)"));
    ut_check_note_end(&vcq);
    cr_assert_str_eq(
        notes(),
        NOTE("2 TCQ entries were requested and never polled (3.7)")
            NOTE("2 MRQ notices came and were never polled: a full MRQ ends the program (3.7)")
                NOTE("2 descriptors of session-mode VCQs were never started (2.2.8.1)"));
}

static void end_with(uint32_t mrq, uint32_t entries, uint32_t longest_toq)
{
    most_mrq = mrq;
    vcq.mrq_entries = entries;
    check.max_toq = longest_toq;
    ut_check_note_end(&vcq);
}

#define CROWDED(vcqs, most)                                                                        \
    NOTE(vcqs " had an MRQ that was more than half full, at most " most " entries: when it is "    \
              "full, the program ends (4.3.2.3)")

Test(notes, mrqs_that_are_more_than_half_full)
{
    begin();
    end_with(50, 100, 0);
    end_with(50, 101, 0);
    cr_assert_str_eq(notes(), "");
    end_with(51, 100, 0);
    cr_assert_str_eq(notes(), CROWDED("1 VCQ", "51 of 100"));
    end_with(600, 1000, 0);
    cr_assert_str_eq(notes(), CROWDED("2 VCQs", "600 of 1000"));
    end_with(60, 101, 0);
    cr_assert_str_eq(notes(), CROWDED("3 VCQs", "600 of 1000"), "the fullest one");
    end_with(60, 100, 0);
    cr_assert_str_eq(notes(), CROWDED("4 VCQs", "60 of 100"), "of two the last one");
}

#define LONG_TOQ(vcqs, most)                                                                       \
    NOTE(vcqs " had more than 1024 descriptors at one time whose TCQ entries were not polled, at " \
              "most " most ": the size of a TOQ there is not documented, and a full TOQ returns "  \
              "UTOFU_ERR_BUSY (3.7)")

Test(notes, long_toqs)
{
    begin();
    end_with(0, 100, 1024);
    cr_assert_str_eq(notes(), "");
    end_with(0, 100, 1025);
    cr_assert_str_eq(notes(), LONG_TOQ("1 VCQ", "1025"));
    end_with(0, 100, 1027);
    end_with(0, 100, 1026);
    cr_assert_str_eq(notes(), LONG_TOQ("3 VCQs", "1027"));
}

#define UNPOLLED                                                                                   \
    " had more than 1000 communications and no poll that found nothing: there is room in a queue " \
    "only after polls (3.7)"

Test(notes, vcqs_that_are_not_polled)
{
    begin();
    check.number = 1001;
    ut_check_note_end(&vcq);
    check.polls = 0;
    check.number = 1000;
    ut_check_note_end(&vcq);
    cr_assert_str_eq(notes(), "");
    check.number = 1001;
    ut_check_note_end(&vcq);
    cr_assert_str_eq(notes(), NOTE("1 VCQ" UNPOLLED));
    ut_check_note_end(&vcq);
    cr_assert_str_eq(notes(), NOTE("2 VCQs" UNPOLLED));
}

#define SHARED                                                                                     \
    " used by several threads, and created without THREAD_SAFE: correct only if no two of them "   \
    "are ever in a call at the same time (manual 3.3.4.1)"

Test(notes, vcqs_of_several_threads)
{
    begin();
    vcq.flags = UTOFU_VCQ_FLAG_THREAD_SAFE;
    check.several_threads = true;
    ut_check_note_end(&vcq);
    vcq.flags = 0;
    check.several_threads = false;
    ut_check_note_end(&vcq);
    cr_assert_str_eq(notes(), "");
    check.several_threads = true;
    ut_check_note_end(&vcq);
    cr_assert_str_eq(notes(), NOTE("1 VCQ was" SHARED));
    ut_check_note_end(&vcq);
    cr_assert_str_eq(notes(), NOTE("2 VCQs were" SHARED));
}

Test(notes, lines_that_a_cpu_wrote_too)
{
#define LINES(n)                                                                                   \
    NOTE("lines of 256 bytes in which a CPU wrote while a put to other bytes of them was under "   \
         "way: " n ", the first put in f5() at x.c:7; there one of the two may be lost (2.2.10)")
    begin();
    ut_check_note_line((const void *)5);
    cr_assert_str_eq(notes(), LINES("1"));
    ut_check_note_line((const void *)6);
    cr_assert_str_eq(notes(), LINES("2"));
}

/*
 * What a node has
 */

#define CQS(n)                                                                                     \
    NOTE(n                                                                                         \
         " used on a node, if its processes use as many as this one: the real machine has 9 for "  \
         "all of them (manual 6.1.2)")

static void use_cqs(unsigned int tni, unsigned int from, unsigned int to, unsigned long flags)
{
    for (unsigned int cq = from; cq < to; cq++) {
        vcq.tni = (uint16_t)tni;
        vcq.cq_index = (uint16_t)cq;
        vcq.flags = flags;
        ut_check_note_end(&vcq);
    }
}

Test(notes, cqs_of_a_node)
{
    begin();
    use_cqs(5, 0, 3, 0);
    use_cqs(0, 0, 2, 0);
    use_cqs(1, 0, 2, 0);
    job.local_size = 3;
    cr_assert_str_eq(notes(), "");
    job.local_size = 4;
    cr_assert_str_eq(notes(), CQS("12 CQs of a TNI are"));
    job.local_size = 2;
    use_cqs(0, 2, 5, 0);
    use_cqs(0, 2, 5, 0);
    cr_assert_str_eq(notes(), CQS("10 CQs of a TNI are"));
}

#define SESSION(n)                                                                                 \
    NOTE("" n " used, all that UTOFU_NUM_SESSION_MODE_CQS sets aside: there MPI takes its own of " \
         "them (4.3.2.2)")

Test(notes, cqs_of_session_mode)
{
    begin();
    use_cqs(3, 4, 6, UTOFU_VCQ_FLAG_SESSION_MODE);
    use_cqs(3, 6, 9, 0);
    use_cqs(4, 0, 2, UTOFU_VCQ_FLAG_SESSION_MODE);
    cr_assert_str_eq(notes(), "");
    process.num_session = 2;
    cr_assert_str_eq(notes(), SESSION("2 session-mode CQs of a TNI are"));
    job.local_size = 2;
    cr_assert_str_eq(notes(),
                     CQS("10 CQs of a TNI are") SESSION("2 session-mode CQs of a TNI are"));
    job.local_size = 1;
    has_process = false;
    cr_assert_str_eq(notes(), "");
}

Test(notes, one_cq_of_session_mode)
{
    begin();
    use_cqs(3, 4, 5, UTOFU_VCQ_FLAG_SESSION_MODE);
    process.num_session = 1;
    cr_assert_str_eq(notes(), SESSION("1 session-mode CQ of a TNI is"));
}

#define GATES_OF(n, kind, limit)                                                                   \
    NOTE(n " " kind " gates of a TNI are used on a node, if its processes use as many as this "    \
           "one: the real machine has " limit " for all of them (manual 6.1.2)")

Test(notes, gates_of_a_node)
{
    begin();
    job.local_size = 2;
    ut_check_gates(1, 8, 16);
    ut_check_gates(2, 8, 16);
    cr_assert_str_eq(notes(), "");
    ut_check_gates(1, 1, 0);
    cr_assert_str_eq(notes(), GATES_OF("18", "start/end", "16"));
    ut_check_gates(1, -1, 0);
    ut_check_gates(1, 0, 1);
    ut_check_gates(1, 0, -1);
    cr_assert_str_eq(notes(), GATES_OF("18", "start/end", "16") GATES_OF("34", "relay", "32"),
                     "the most at one time");
    process.fugaku_cqs = true;
    cr_assert_str_eq(notes(), "");
    process.fugaku_cqs = false;
    has_process = false;
    cr_assert_str_eq(notes(), "");
}

Test(notes, processes_of_a_node)
{
    begin();
    job.local_size = 48;
    cr_assert_str_eq(notes(), "");
    job.local_size = 49;
    cr_assert_str_eq(notes(), NOTE("49 processes are on a node, which has 48 cores there"));
}
