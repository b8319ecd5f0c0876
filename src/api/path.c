/* SPDX-License-Identifier: Apache-2.0 */
/* Paths (manual 3.3.2.3, 3.5). Here a path has no effect on routing. Ids and coordinates behave as
 * on Tofu. */
#include <string.h>

#include "api/api.h"

/* The default path goes over the target's own a, b, c. */
static int choose_path(utofu_vcq_id_t vcq_id, const uint8_t path_coords[], uint8_t path[3],
                       struct ut_vcq_ident *ident)
{
    int rc = ut_take_vcq_id(vcq_id, ident);

    if (rc != 0)
        return rc;
    if (!path_coords) {
        memcpy(path, ident->coords.at + 3, 3);
        return UTOFU_SUCCESS;
    }
    if (!ut_path_valid(path_coords))
        return UT_REFUSE(UTOFU_ERR_INVALID_PATH, "path %u, %u, %u: A, B, C end at 1, 2, 1",
                         path_coords[0], path_coords[1], path_coords[2]);
    memcpy(path, path_coords, 3);
    return UTOFU_SUCCESS;
}

UT_PUBLIC(utofu_set_vcq_id_path);
int utofu_set_vcq_id_path(utofu_vcq_id_t *vcq_id, uint8_t path_coords[])
{
    struct ut_vcq_ident ident;
    uint8_t path[3];

    if (!vcq_id)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "vcq_id is NULL");
    int rc = choose_path(*vcq_id, path_coords, path, &ident);
    if (rc == UTOFU_SUCCESS) {
        memcpy(ident.path, path, sizeof(ident.path));
        *vcq_id = ut_vcq_id_pack(&ident);
    }
    return rc;
}

UT_PUBLIC(utofu_get_path_id);
int utofu_get_path_id(utofu_vcq_id_t vcq_id, uint8_t path_coords[], utofu_path_id_t *path_id)
{
    struct ut_vcq_ident ident;
    uint8_t path[3];

    if (!path_id)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "path_id is NULL");
    int rc = choose_path(vcq_id, path_coords, path, &ident);
    if (rc == UTOFU_SUCCESS)
        *path_id = ut_path_id(vcq_id, path);
    return rc;
}

UT_PUBLIC(utofu_get_path_coords);
int utofu_get_path_coords(utofu_vcq_id_t vcq_id, utofu_path_id_t path_id, uint8_t path_coords[])
{
    struct ut_vcq_ident ident;
    uint8_t path[3];

    if (!path_coords)
        return UT_REFUSE(UTOFU_ERR_INVALID_POINTER, "path_coords is NULL");
    int rc = choose_path(vcq_id, NULL, path, &ident);
    if (rc != UTOFU_SUCCESS)
        return rc;
    if (!ut_path_of_id(vcq_id, path_id, path_coords))
        return UT_REFUSE(UTOFU_ERR_INVALID_PATH_ID, "path id %u: they are 0 to 11", path_id);
    return UTOFU_SUCCESS;
}
