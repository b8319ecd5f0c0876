/* SPDX-License-Identifier: Apache-2.0 */
#include "record/places.h"

#include <string.h>

#include "ident/ident.h"

void ut_record_place_vcq(utofu_vcq_id_t id, struct ut_record_place *place)
{
    struct ut_vcq_ident ident = {.tni = 0};

    ut_vcq_id_unpack(id, &ident);
    *place = (struct ut_record_place){.tni = ident.tni, .number = ident.cq, .cmp = ident.cmp};
    memcpy(place->coords, ident.coords.at, sizeof(place->coords));
    memcpy(place->path, ident.path, sizeof(place->path));
}

void ut_record_place_gate(utofu_vbg_id_t id, struct ut_record_place *place)
{
    struct ut_vbg_ident ident = {.tni = 0};

    ut_vbg_id_unpack(id, &ident);
    *place = (struct ut_record_place){.tni = ident.tni, .number = ident.gate};
    memcpy(place->coords, ident.coords.at, sizeof(place->coords));
}

void ut_record_place_path(utofu_vcq_id_t remote, utofu_path_id_t path_id, uint8_t path[3])
{
    ut_path_of_id(remote, path_id, path);
}
