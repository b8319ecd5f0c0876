/* SPDX-License-Identifier: Apache-2.0 */
/* Describes failed communications: see failure.h. */
#include "engine/failure.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine/inner.h"
#include "peers/peers.h"
#include "process/process.h"
#include "stag/stag.h"
#include "util/codes.h"
#include "util/last_error.h"
#include "util/log.h"
#include "util/fd_check.h"

/* A failed communication. */
struct failure {
    utofu_vcq_id_t lcl_vcq_id, rmt_vcq_id;
    utofu_stadd_t lcl_stadd, rmt_stadd;
    struct ut_failure why;
    uint32_t length;
    int16_t rc;
    uint8_t kind; /* enum ut_desc_kind */
    uint8_t edata;
};
_Static_assert(sizeof(struct failure) <= UT_LAST_ERROR_DATA,
               "utofu_get_last_error() stores a failure");

static bool is_tcq_code(int rc)
{
    return rc <= UTOFU_ERR_TCQ_OTHER && rc >= UTOFU_ERR_TCQ_LENGTH;
}

static bool is_local_memory(int rc)
{
    return (is_tcq_code(rc) && rc != UTOFU_ERR_TCQ_OTHER) || rc == UTOFU_ERR_MRQ_LCL_MEMORY ||
           rc == UTOFU_ERR_MRQ_LCL_STADD || rc == UTOFU_ERR_MRQ_LCL_LENGTH;
}

static bool is_remote_memory(int rc)
{
    return rc == UTOFU_ERR_MRQ_RMT_MEMORY || rc == UTOFU_ERR_MRQ_RMT_STADD ||
           rc == UTOFU_ERR_MRQ_RMT_LENGTH;
}

/*
 * When a communication fails
 */

static struct ut_failure explain_code(struct ut_link *link, const struct ut_slot *slot, int rc)
{
    const struct ut_desc *d = &slot->desc;
    uint32_t length = ut_desc_length(d);
    bool to_local = ut_slot_is_to_local(slot);

    if (!link)
        return (struct ut_failure){.cause = UT_CAUSE_NO_MEMORY};
    bool of_link =
        link->why.cause == UT_CAUSE_SHORTAGE || link->why.cause == UT_CAUSE_BROKEN_REPEATEDLY;
    if (rc == UTOFU_ERR_MRQ_PEER ||
        (rc == UTOFU_ERR_MRQ_OTHER && link->state != UT_LINK_UP && of_link))
        return link->why;
    if (is_local_memory(rc) && (to_local || d->kind == UT_DESC_PUT))
        return ut_stag_failure_cause(link->vcq->stags, d->lcl_stadd, length, to_local);
    /* if the target's CPU refused an ARMW, this process may never have looked up the memory */
    if (is_remote_memory(rc) && !(d->kind == UT_DESC_ARMW && slot->stage != UT_STAGE_NONE))
        return ut_link_error_cause(link, d->rmt_stadd, length, !to_local);
    return (struct ut_failure){.cause =
                                   rc == UTOFU_ERR_MRQ_OTHER ? UT_CAUSE_DEVICE : UT_CAUSE_NONE};
}

void ut_slot_set_failed(struct ut_link *link, struct ut_slot *slot, int rc)
{
    struct ut_failure why = explain_code(link, slot, rc);

    slot->cause = why.cause;
    slot->detail = why.detail;
    if (is_tcq_code(rc))
        slot->tcq_rc = (int16_t)rc;
    else
        slot->mrq_rc = (int16_t)rc;
}

/*
 * The failure in the MRQ. This module uses the reserved words of an entry until the program takes
 * the entry, and also the STADD field that the notice type does not use.
 */

static uint64_t pack_failure(const struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;

    return (uint64_t)(uint16_t)slot->mrq_rc | (uint64_t)slot->cause << 16 |
           (uint64_t)d->kind << 24 | (uint64_t)ut_desc_length(d) << 32;
}

void ut_mrq_push_failed(struct ut_link *link, struct ut_slot *slot)
{
    struct utofu_mrq_notice n = ut_engine_make_notice(link, slot);

    if (slot->desc.kind == UT_DESC_PUT)
        n.lcl_stadd = slot->desc.lcl_stadd;
    else if (slot->desc.kind == UT_DESC_GET)
        n.rmt_stadd = slot->desc.rmt_stadd;
    ut_mrq_push(link->vcq, pack_failure(slot), n)->reserved[1] = slot->detail;
}

int ut_mrq_code(const struct utofu_mrq_notice *entry)
{
    return (int16_t)entry->reserved[0];
}

/*
 * When the program takes the entry
 */

static void describe_failure(const void *data, char *buf, size_t size);

static struct failure mrq_failure(const struct ut_vcq *vcq, const struct utofu_mrq_notice *entry)
{
    uint64_t packed = entry->reserved[0];
    struct failure f = {
        .lcl_vcq_id = vcq->id,
        .rmt_vcq_id = entry->vcq_id,
        .lcl_stadd = entry->lcl_stadd,
        .rmt_stadd = entry->rmt_stadd,
        .why = {.cause = (uint8_t)(packed >> 16), .detail = entry->reserved[1]},
        .length = (uint32_t)(packed >> 32),
        .rc = (int16_t)packed,
        .kind = (uint8_t)(packed >> 24),
        .edata = (uint8_t)entry->edata,
    };

    if (f.kind == UT_DESC_GET)
        f.lcl_stadd -= f.length; /* a notice has the STADD behind the last byte */
    else if (f.kind != UT_DESC_ARMW)
        f.rmt_stadd -= f.length;
    return f;
}

int ut_mrq_take_failed(const struct ut_vcq *vcq, const struct utofu_mrq_notice *entry,
                       struct utofu_mrq_notice *notice)
{
    struct failure f = mrq_failure(vcq, entry);

    if (f.kind == UT_DESC_GET)
        notice->rmt_stadd = 0;
    else if (f.kind != UT_DESC_ARMW)
        notice->lcl_stadd = 0;
    notice->reserved[0] = notice->reserved[1] = 0;
    ut_last_error_data(f.rc, describe_failure, &f, sizeof(f));
    return f.rc;
}

static struct failure tcq_failure(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    const struct ut_desc *d = &slot->desc;

    return (struct failure){
        .lcl_vcq_id = vcq->id,
        .rmt_vcq_id = d->rmt_vcq_id,
        .lcl_stadd = d->kind == UT_DESC_PUT || d->kind == UT_DESC_GET ? d->lcl_stadd : 0,
        .rmt_stadd = d->rmt_stadd,
        .why = {.cause = slot->cause, .detail = slot->detail},
        .length = ut_desc_length(d),
        .rc = slot->tcq_rc,
        .kind = d->kind,
        .edata = d->edata,
    };
}

int ut_tcq_take_failed(const struct ut_vcq *vcq, const struct ut_slot *slot)
{
    struct failure f = tcq_failure(vcq, slot);

    ut_last_error_data(f.rc, describe_failure, &f, sizeof(f));
    return f.rc;
}

/*
 * While the program does not take the entry
 */

static bool find_tcq_failure(struct ut_vcq *vcq, struct failure *f)
{
    for (uint32_t i = vcq->tcq_head; i != vcq->toq_exec; i++) {
        const struct ut_slot *slot = ut_vcq_slot(vcq, i);
        if (slot->tcq_ready && slot->tcq_rc != 0) {
            *f = tcq_failure(vcq, slot);
            return true;
        }
    }
    return false;
}

static bool find_mrq_failure(const struct ut_vcq *vcq, struct failure *f)
{
    for (uint32_t i = vcq->mrq_head; i != vcq->mrq_tail; i++) {
        const struct utofu_mrq_notice *entry = &vcq->mrq[i & vcq->mrq_mask];
        if (ut_mrq_code(entry) != 0) {
            *f = mrq_failure(vcq, entry);
            return true;
        }
    }
    return false;
}

bool ut_describe_unread_error(struct ut_vcq *vcq, enum ut_queue queue, char *buf, size_t size)
{
    struct failure f;

    if (!(queue == UT_QUEUE_TCQ ? find_tcq_failure(vcq, &f) : find_mrq_failure(vcq, &f)))
        return false;
    int n = snprintf(buf, size, "%s: ", ut_code_name(f.rc));
    if (n >= 0 && (size_t)n < size)
        describe_failure(&f, buf + n, size - (size_t)n);
    return true;
}

void ut_warn_of_unread_error(struct ut_vcq *vcq, enum ut_queue queue)
{
    bool tcq = queue == UT_QUEUE_TCQ;
    char text[UT_UNREAD_ERROR_TEXT];

    if (!ut_describe_unread_error(vcq, queue, text, sizeof(text)))
        return;
    ut_warn("engine",
            "the program polls the %s of VCQ %016llx for %llu s, empty, and does not poll its "
            "%s, which has an error: utofu_poll_%s() will return %s",
            tcq ? "MRQ" : "TCQ", (unsigned long long)vcq->id,
            ut_long_wait_seconds(&vcq->empty.wait, vcq->empty.last_ms), tcq ? "TCQ" : "MRQ",
            tcq ? "tcq" : "mrq", text);
}

/*
 * The text
 */

struct text {
    char *at, *end;
};

static void __attribute__((format(printf, 2, 3))) add_text(struct text *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(t->at, (size_t)(t->end - t->at), fmt, ap);
    va_end(ap);
    t->at += n < t->end - t->at ? n : t->end - t->at - 1;
}

static void add_communication(struct text *t, const struct failure *f)
{
#define CALLED(NAME, FAMILY, traits, text) [UT_DESC_##NAME] = text,
    static const char *const names[] = {UT_KINDS(CALLED)};
#undef CALLED
    const char *name = f->kind < sizeof(names) / sizeof(names[0]) ? names[f->kind] : NULL;

    add_text(t, "%s of %u bytes with EDATA %u from VCQ %016llx", name ? name : "communication",
             f->length, f->edata, (unsigned long long)f->lcl_vcq_id);
}

/* Adds the id and rank of the peer, if this process knows them without a query. */
static void add_peer(struct text *t, utofu_vcq_id_t id)
{
    struct ut_vcq_ident ident;
    bool certain;

    add_text(t, " to VCQ %016llx", (unsigned long long)id);
    if (!ut_vcq_id_unpack(id, &ident) || !ut_vcq_ident_is_of_program(&ident))
        return;
    const uint8_t *at = ident.coords.at;
    int64_t rank = ut_peers_likely_rank(&ident, &certain);
    add_text(t, " (");
    if (rank >= 0)
        add_text(t, "%srank %lld, ", certain ? "" : "probably ", (long long)rank);
    add_text(t, "node %u,%u,%u,%u,%u,%u, TNI %u, CQ %u, component %u)", at[0], at[1], at[2], at[3],
             at[4], at[5], ident.tni, ident.cq, ident.cmp);
}

static void add_stag(struct text *t, utofu_stadd_t stadd)
{
    uint32_t stag = ut_stadd_stag(stadd);
    uint32_t reserved = stag - UT_STAG_RESERVED_BASE;

    if (reserved < 0x100u * UT_NUM_CMP_IDS)
        add_text(t, "no memory is registered with its STag, %u of component %u", reserved % 0x100,
                 reserved / 0x100);
    else
        add_text(t, "no memory is registered with its STag, %#x", stag);
    add_text(t, ": it was deregistered, or never registered on this VCQ");
}

/* Returns the text for an ARMW that the target's CPU refused: the reply has a code without a cause.
 */
static const char *text_of_code(int rc)
{
    switch (rc) {
    case UTOFU_ERR_MRQ_RMT_STADD:
        return "it lies in no registered memory there, or its word is not aligned";
    case UTOFU_ERR_MRQ_RMT_LENGTH:
        return "the word runs out of its region";
    case UTOFU_ERR_MRQ_RMT_MEMORY:
        return "its region is registered read-only";
    default:
        return "the memory could not be accessed";
    }
}

#define FAR_BEHIND (ut_stadd_make(1, 0, 0) / 2) /* half of the STADD range of one STag */

static void add_memory_cause(struct text *t, const struct failure *f, utofu_stadd_t stadd)
{
    unsigned long long n = f->why.detail;

    switch ((enum ut_cause)f->why.cause) {
    case UT_CAUSE_NO_STAG:
        add_stag(t, stadd);
        break;
    case UT_CAUSE_BEFORE:
        add_text(t, "it lies %llu bytes before its region", n);
        break;
    case UT_CAUSE_BEHIND:
        if (n > FAR_BEHIND) {
            /* the program has probably subtracted from an STADD of the next STag, not added to this
             * one */
            add_text(t, "it lies %llu bytes before the next STag begins, far behind its own region",
                     (unsigned long long)(ut_stadd_make(1, 0, 0) - ut_stadd_offset(stadd)));
            break;
        }
        add_text(t, "it lies %llu bytes behind the last byte of its region", n);
        break;
    case UT_CAUSE_SHORT:
        add_text(t, "%llu bytes are left from there to the end of its region", n);
        break;
    case UT_CAUSE_READ_ONLY:
        add_text(t, "its region is registered read-only");
        break;
    case UT_CAUSE_ACCESS:
        add_text(t, "its memory could not be accessed: it was unmapped or deregistered meanwhile");
        break;
    default:
        add_text(t, "%s", text_of_code(f->rc));
    }
}

/* Returns the text for a cause without a number. */
static const char *text_of_cause(enum ut_cause cause)
{
    switch (cause) {
    case UT_CAUSE_DEAD:
        return "its process has ended";
    case UT_CAUSE_FREED:
        return "its process has freed the VCQ";
    case UT_CAUSE_NO_OWNER:
        return "no process of the job has this CQ";
    case UT_CAUSE_UNREACHABLE:
        return "no provider reaches its process";
    case UT_CAUSE_REFUSED:
        return "its process and this process rejected each other; see the log";
    case UT_CAUSE_INCOMPATIBLE:
        return "its process runs another version or ARMW mode of this library; see the log";
    case UT_CAUSE_INVALID_ADDRESS:
        return "its process has no valid address record; see the log";
    default:
        return "the cause is not known";
    }
}

/* Explains an id that the program seems to have calculated with the wrong CQ. */
static void add_cq(struct text *t, utofu_vcq_id_t id)
{
    struct ut_vcq_ident ident;
    char text[256];

    if (ut_vcq_id_unpack(id, &ident) && ut_peers_explain_wrong_cq(&ident, text, sizeof(text)))
        add_text(t, "; %s", text);
}

static void add_other_cause(struct text *t, const struct ut_failure *why, utofu_vcq_id_t id)
{
    unsigned long long s = why->detail;

    switch ((enum ut_cause)why->cause) {
    case UT_CAUSE_SILENT:
        add_text(t,
                 "its process or host has not answered for more than %llu s; a later communication "
                 "tries again",
                 s);
        break;
    case UT_CAUSE_LOST:
        add_text(t, "no connection to it could be made within %llu s", s);
        break;
    case UT_CAUSE_NO_VCQ:
        add_text(t, "its process has no such VCQ, which was freed, or not created within %llu s",
                 s);
        add_cq(t, id);
        break;
    case UT_CAUSE_NOT_STARTED:
        add_text(t,
                 "its process has not called the library within %llu s, or has ended before this "
                 "process asked for it; see the log",
                 s);
        break;
    case UT_CAUSE_DEVICE:
        add_text(t, "%s",
                 ut_fd_were_closed()
                     ? "the program has closed descriptors of this library; see the log"
                     : "this side's device, port or connection failed; see the log and utofu-info "
                       "--check");
        break;
    case UT_CAUSE_SHORTAGE:
        add_text(t,
                 "this process lacked memory or descriptors to connect for too long; see the log");
        break;
    case UT_CAUSE_NO_MEMORY:
        add_text(t, "this process has no memory left for its connection");
        break;
    case UT_CAUSE_BROKEN_REPEATEDLY:
        add_text(t,
                 "its connection broke %llu times in a row before the oldest communication on it "
                 "was complete: does this process still have the memory of that communication?",
                 s);
        break;
    case UT_CAUSE_OUTCOME_UNKNOWN:
        add_text(t,
                 "its connection broke before the peer's adapter had acknowledged it: it may have "
                 "been executed, and UTOFU_AFTER_BREAK=report does not repeat it");
        break;
    default:
        add_text(t, "%s", text_of_cause((enum ut_cause)why->cause));
    }
}

static void describe_failure(const void *data, char *buf, size_t size)
{
    const struct failure *f = data;
    struct text t = {.at = buf, .end = buf + size};
    bool local = is_local_memory(f->rc);

    add_communication(&t, f);
    add_peer(&t, f->rmt_vcq_id);
    if (local || is_remote_memory(f->rc)) {
        utofu_stadd_t stadd = local ? f->lcl_stadd : f->rmt_stadd;
        add_text(&t, ": %s STADD %#llx: ", local ? "local" : "remote", (unsigned long long)stadd);
        add_memory_cause(&t, f, stadd);
    } else {
        add_text(&t, ", remote STADD %#llx: ", (unsigned long long)f->rmt_stadd);
        add_other_cause(&t, &f->why, f->rmt_vcq_id);
    }
}

void ut_toq_full_describe(void)
{
    utofu_vcq_hdl_t handle = ut_last_error_busy;

    if (!handle)
        return;
    struct ut_vcq *vcq = ut_vcq_enter_any(handle);
    utofu_vcq_id_t id = vcq ? vcq->id : 0;
    uint32_t entries = vcq ? vcq->toq_mask + 1 : 0;
    if (vcq)
        ut_vcq_leave(vcq);
    ut_log_refuse(
        UTOFU_ERR_BUSY, UT_LOG_DEBUG, "engine",
        "the TOQ of VCQ %016llx (%u descriptors) has no room: call utofu_poll_tcq() until "
        "it finds nothing, then try again",
        (unsigned long long)id, entries);
}
