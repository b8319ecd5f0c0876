/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/address.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "process/process.h"
#include "util/env.h"
#include "wire/record.h"

/* Bytes of magic and version, which are the same in all versions. */
enum { COMMON_BYTES = 4 };

static bool has_right_size(const struct ut_address_record *r, const void *record, size_t size)
{
    size_t end = ut_record_end(record, size);

    return end > 0 && end + (r->has_contact ? sizeof(struct ut_contact) : 0) == size;
}

static bool has_valid_cqs(const struct ut_address_record *r, const uint8_t *list)
{
    if (r->num_cqs < 1 || r->num_cqs > UT_MAX_CQS || r->cq_first > UT_MAX_CQ_ID)
        return false;
    for (unsigned int i = 0; r->cq_list && i < r->num_cqs; i++) {
        uint16_t id;
        memcpy(&id, list + i * sizeof(id), sizeof(id));
        if (id > UT_MAX_CQ_ID)
            return false;
    }
    return r->cq_list || r->cq_first + r->num_cqs - 1 <= UT_MAX_CQ_ID;
}

static bool is_valid(const void *record, size_t size)
{
    struct ut_address_record r;

    if (size < sizeof(r))
        return false;
    memcpy(&r, record, sizeof(r));
    return r.cq_list <= 1 && r.has_contact <= 1 && r.num_cqs <= UT_MAX_CQS &&
           has_right_size(&r, record, size) &&
           has_valid_cqs(&r, (const uint8_t *)record + sizeof(r)) && r.local_rank < r.local_size &&
           (r.armw_mode == UT_ARMW_CPU || r.armw_mode == UT_ARMW_NIC);
}

static const char *armw_mode_name(uint8_t armw_mode)
{
    return armw_mode == UT_ARMW_NIC ? "device" : "CPU";
}

int ut_address_check(const void *record, size_t size, uint8_t armw_mode, char why[UT_ADDRESS_WHY])
{
    struct ut_address_record r = {0};

    memcpy(&r, record, size < sizeof(r) ? size : sizeof(r));
    if (size >= COMMON_BYTES && r.magic == UT_ADDRESS_RECORD_MAGIC &&
        r.version != UT_WIRE_VERSION) {
        snprintf(why, UT_ADDRESS_WHY,
                 "runs another version of this library (wire format %u, here %d); use one version "
                 "in a job",
                 r.version, UT_WIRE_VERSION);
        return -EPROTONOSUPPORT;
    }
    if (size < COMMON_BYTES || r.magic != UT_ADDRESS_RECORD_MAGIC || !is_valid(record, size)) {
        snprintf(
            why, UT_ADDRESS_WHY,
            "published %zu bytes that are not an address record of this library; start it with the "
            "same library as this process (utofu-info --check), and with a rank of its own",
            size);
        return -EPROTO;
    }
    if (r.armw_mode != armw_mode) {
        snprintf(why, UT_ADDRESS_WHY,
                 "executes ARMW by %s, this process by %s; set UTOFU_ARMW to one value for the "
                 "whole job",
                 armw_mode_name(r.armw_mode), armw_mode_name(armw_mode));
        return -EPROTONOSUPPORT;
    }
    return 0;
}
