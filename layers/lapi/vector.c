/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of the program, and the lists of addresses and lengths that tasks send. */
#include "vector.h"

#include <string.h>

static bool is_strided(const lapi_vec_t *vec)
{
    return vec->vec_type == LAPI_GEN_STRIDED_XFER;
}

static struct la_segment get_segment(const lapi_vec_t *vec, uint32_t i)
{
    if (!is_strided(vec))
        return (struct la_segment){.address = (uintptr_t)vec->info[i], .len = vec->len[i]};
    return (struct la_segment){.address =
                                   (uintptr_t)vec->info[0] + (uint64_t)i * (uintptr_t)vec->info[2],
                               .len = (uintptr_t)vec->info[1]};
}

static int check_segments(const lapi_vec_t *vec, enum la_side side, uint64_t *len)
{
    *len = 0;
    for (uint32_t i = 0; i < vec->num_vecs; i++) {
        struct la_segment segment = get_segment(vec, i);

        if (segment.address == 0 && segment.len > 0)
            return side == LA_ORG ? LAPI_ERR_ORG_VEC_ADDR : LAPI_ERR_TGT_VEC_ADDR;
        if (segment.len > LAPI_MAX_MSG_SZ - *len)
            return side == LA_ORG ? LAPI_ERR_ORG_VEC_LEN : LAPI_ERR_TGT_VEC_LEN;
        *len += segment.len;
    }
    return LAPI_SUCCESS;
}

int la_vec_check(const lapi_vec_t *vec, enum la_side side, uint64_t *len)
{
    if (vec == NULL)
        return side == LA_ORG ? LAPI_ERR_ORG_VEC_NULL : LAPI_ERR_TGT_VEC_NULL;
    if ((unsigned int)vec->vec_type >= LAPI_LAST_VECTYPE)
        return side == LA_ORG ? LAPI_ERR_ORG_VEC_TYPE : LAPI_ERR_TGT_VEC_TYPE;
    if (vec->num_vecs > 0 && (vec->info == NULL || (!is_strided(vec) && vec->len == NULL)))
        return side == LA_ORG ? LAPI_ERR_ORG_VEC_ADDR : LAPI_ERR_TGT_VEC_ADDR;
    if (is_strided(vec) && vec->num_vecs > 0 && vec->info[2] < vec->info[1])
        return side == LA_ORG ? LAPI_ERR_ORG_STRIDE : LAPI_ERR_TGT_STRIDE;
    return check_segments(vec, side, len);
}

int la_vec_compare(const lapi_vec_t *tgt, const lapi_vec_t *org)
{
    if (tgt->vec_type != org->vec_type)
        return LAPI_ERR_VEC_TYPE_DIFF;
    if (tgt->num_vecs != org->num_vecs)
        return LAPI_ERR_VEC_NUM_DIFF;
    for (uint32_t i = 0; i < tgt->num_vecs; i++)
        if (get_segment(tgt, i).len != get_segment(org, i).len)
            return LAPI_ERR_VEC_LEN_DIFF;
    return LAPI_SUCCESS;
}

uint64_t la_vec_list_size(const lapi_vec_t *vec)
{
    return vec->num_vecs * sizeof(struct la_segment);
}

void la_vec_encode(const lapi_vec_t *vec, void *list)
{
    for (uint32_t i = 0; i < vec->num_vecs; i++) {
        struct la_segment segment = get_segment(vec, i);

        memcpy((struct la_segment *)list + i, &segment, sizeof(segment));
    }
}

/* Copies between a segment and the packed data. A list of a peer may describe more bytes than there
 * are. */
static void copy_segment(struct la_segment segment, uint8_t *data, uint64_t len, uint64_t *at,
                         bool to_segments)
{
    uint64_t size = segment.len < len - *at ? segment.len : len - *at;
    void *address = (void *)(uintptr_t)segment.address;

    if (size == 0)
        return;
    memcpy(to_segments ? address : data + *at, to_segments ? data + *at : address, size);
    *at += size;
}

static void copy_segments(const void *list, uint64_t list_size, uint8_t *data, uint64_t len,
                          bool to_segments)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < list_size / sizeof(struct la_segment); i++) {
        struct la_segment segment;

        memcpy(&segment, (const struct la_segment *)list + i, sizeof(segment));
        copy_segment(segment, data, len, &at, to_segments);
    }
}

void la_list_gather(const void *list, uint64_t list_size, void *to, uint64_t len)
{
    copy_segments(list, list_size, to, len, false);
}

void la_list_scatter(const void *list, uint64_t list_size, const void *from, uint64_t len)
{
    copy_segments(list, list_size, (uint8_t *)(uintptr_t)from, len, true);
}

void la_vec_scatter(const lapi_vec_t *vec, const void *from, uint64_t len)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < vec->num_vecs; i++)
        copy_segment(get_segment(vec, i), (uint8_t *)(uintptr_t)from, len, &at, true);
}
