/* SPDX-License-Identifier: Apache-2.0 */
/* Where the VCQs and gates of a recording are. Uses ident. */
#ifndef UT_RECORD_PLACES_H
#define UT_RECORD_PLACES_H

#include <stdint.h>

#include "utofu.h"

/* Where a VCQ or a gate is. */
struct ut_record_place {
    uint8_t coords[6];
    uint16_t tni, number, cmp; /* number: of the CQ or of the gate (0 to 15: start) */
    uint8_t path[3];           /* default path of a VCQ id */
};
/* Asked once for each id of a thread. An id that is unknown leaves `place` as it is. */
void ut_record_place_vcq(utofu_vcq_id_t id, struct ut_record_place *place);
void ut_record_place_gate(utofu_vbg_id_t id, struct ut_record_place *place);
void ut_record_place_path(utofu_vcq_id_t remote, utofu_path_id_t path_id, uint8_t path[3]);

#endif
