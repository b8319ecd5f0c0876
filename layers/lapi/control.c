/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registered memory that peers write to and read. It has a reserved STag, so that peers compute
 * its STADD from the VCQ id. It holds the control words, the slots for records, and a reply area
 * for each request of this task.
 */
#include "control.h"
#include "net.h"

enum { PAGE = 4096 };

/* Layout. One region for everything: uTofu is fastest with the region that it used last. */
static const uint64_t inbox_offset = (sizeof(struct la_control_words) + PAGE - 1) / PAGE * PAGE;
static const uint64_t inbox_size = (uint64_t)LA_NUM_SLOTS * LA_SLOT_SIZE;
static const uint64_t replies_size = (uint64_t)LA_NUM_REQS * LA_REPLY_SIZE;
static const uint64_t assist_reports_size = LA_NUM_INCOMING * sizeof(uint64_t);

static size_t control_memory_size(void)
{
    return inbox_offset + inbox_size + replies_size + assist_reports_size;
}

bool la_control_setup(void)
{
    uint8_t *memory;

    if (!lc_control_open(&la.control.base, la_port(), LA_STAG_CONTROL, control_memory_size()))
        return false;
    memory = la.control.base.memory.start;
    la.control.words = (struct la_control_words *)memory;
    la.control.inbox = (uint8_t(*)[LA_SLOT_SIZE])(memory + inbox_offset);
    la.control.replies = (struct la_reply_area *)(memory + inbox_offset + inbox_size);
    la.control.assist_reports = (uint64_t *)(memory + inbox_offset + inbox_size + replies_size);
    return true;
}

void la_control_close(void)
{
    lc_control_close(&la.control.base);
}

utofu_stadd_t la_slot_stadd(utofu_vcq_id_t id, uint32_t slot)
{
    return la_control_stadd(id, inbox_offset + (uint64_t)slot * LA_SLOT_SIZE);
}

utofu_stadd_t la_reply_stadd(utofu_vcq_id_t id, uint32_t req_index, uint32_t offset)
{
    return la_control_stadd(id, inbox_offset + inbox_size + (uint64_t)req_index * LA_REPLY_SIZE +
                                    offset);
}

utofu_stadd_t la_assist_report_stadd(utofu_vcq_id_t id, uint32_t incoming_index)
{
    return la_control_stadd(id, inbox_offset + inbox_size + replies_size +
                                    incoming_index * sizeof(uint64_t));
}

enum la_control_part la_control_find_part(utofu_stadd_t put_end, uint32_t *index, uint32_t *end)
{
    uint64_t record = put_end - 1 - la.control.base.memory.stadd - inbox_offset,
             reply = record - inbox_size;
    uint64_t report = reply - replies_size;

    if (record < inbox_size) {
        *index = (uint32_t)(record / LA_SLOT_SIZE);
        return LA_IN_SLOT;
    }
    if (reply < replies_size) {
        *index = (uint32_t)(reply / LA_REPLY_SIZE);
        *end = (uint32_t)(reply % LA_REPLY_SIZE) + 1;
        return LA_IN_REPLY;
    }
    *index = (uint32_t)(report / sizeof(uint64_t));
    return report < assist_reports_size ? LA_IN_ASSIST_REPORTS : LA_IN_OTHER;
}
