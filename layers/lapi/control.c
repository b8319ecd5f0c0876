/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registered memory that peers write to and read. It has a reserved STag, so that peers compute
 * its STADD from the VCQ id. It holds the control words, the slots for records, and a reply area
 * for each request of this task.
 */
#include "control.h"
#include "net.h"

enum { PAGE = 4096 };

/* One region for everything: uTofu is fastest with the region that it used last. */
static const uint64_t inbox_at = (sizeof(struct la_control) + PAGE - 1) / PAGE * PAGE;
static const uint64_t inbox_size = (uint64_t)LA_SLOTS * LA_SLOT;
static const uint64_t replies_size = (uint64_t)LA_REQS * LA_REPLY;
static const uint64_t assisted_size = LA_TRANSFERS * sizeof(uint64_t);

static size_t size_of_all(void)
{
    return inbox_at + inbox_size + replies_size + assisted_size;
}

bool la_control_setup(void)
{
    uint8_t *memory;

    if (!lc_control_open(&la.control.area, la_port(), LA_STAG, size_of_all()))
        return false;
    memory = la.control.area.memory.at;
    la.control.words = (struct la_control *)memory;
    la.control.inbox = (uint8_t(*)[LA_SLOT])(memory + inbox_at);
    la.control.replies = (uint8_t(*)[LA_REPLY])(memory + inbox_at + inbox_size);
    la.control.assisted = (uint64_t *)(memory + inbox_at + inbox_size + replies_size);
    return true;
}

void la_control_close(void)
{
    lc_control_close(&la.control.area);
}

utofu_stadd_t la_slot_stadd(utofu_vcq_id_t id, uint32_t slot)
{
    return la_control_stadd(id, inbox_at + (uint64_t)slot * LA_SLOT);
}

utofu_stadd_t la_reply_stadd(utofu_vcq_id_t id, uint32_t req, uint32_t offset)
{
    return la_control_stadd(id, inbox_at + inbox_size + (uint64_t)req * LA_REPLY + offset);
}

utofu_stadd_t la_assisted_stadd(utofu_vcq_id_t id, uint32_t in)
{
    return la_control_stadd(id, inbox_at + inbox_size + replies_size + in * sizeof(uint64_t));
}

enum la_area la_control_classify(utofu_stadd_t stadd, uint32_t *index, uint32_t *offset)
{
    uint64_t record = stadd - 1 - la.control.area.memory.stadd - inbox_at,
             reply = record - inbox_size;
    uint64_t assisted = reply - replies_size;

    if (record < inbox_size) {
        *index = (uint32_t)(record / LA_SLOT);
        return LA_IN_SLOT;
    }
    if (reply < replies_size) {
        *index = (uint32_t)(reply / LA_REPLY);
        *offset = (uint32_t)(reply % LA_REPLY) + 1;
        return LA_IN_REPLY;
    }
    *index = (uint32_t)(assisted / sizeof(uint64_t));
    return assisted < assisted_size ? LA_IN_ASSISTED : LA_IN_OTHER;
}
