/* SPDX-License-Identifier: Apache-2.0 */
/* Is a record one of this layer, with what its kind may have? Others may write anything. */
#include "receive.h"

static bool has_valid_list(const struct la_record *rec)
{
    const bool there = (rec->flags & LA_RENDEZVOUS) == 0;

    if (rec->kind != LA_PUTV && rec->kind != LA_GETV)
        return true;
    return (rec->flags & LA_WANTS_FIN) != 0 && rec->value % sizeof(struct la_piece) == 0 &&
           rec->value <= rec->len && (!there || rec->value <= rec->size);
}

bool la_record_fits_inline(const struct la_record *rec)
{
    return rec->uhdr_len <= LA_INLINE_DATA && rec->size <= LA_INLINE_DATA &&
           (rec->uhdr_len + 7u) / 8 * 8 + rec->size <= LA_INLINE_DATA;
}

static uint32_t room_in(const struct la_record *rec)
{
    if ((rec->flags & LA_INLINE) != 0)
        return LA_INLINE_DATA;
    return (rec->flags & LA_LONG) != 0 ? LA_PAYLOAD : LA_SLOT - LA_LINE;
}

/* What each kind may have; other flags are none. Those that are answered say where to. */
static bool has_valid_flags(const struct la_record *rec)
{
    const bool fetched = (rec->flags & LA_RENDEZVOUS) != 0;
    uint8_t allowed = LA_WANTS_CMPL | LA_WANTS_FIN | LA_RENDEZVOUS | LA_INLINE;

    if (rec->kind == LA_AM)
        allowed |= LA_VECTOR;
    if (fetched && (rec->kind == LA_AM || rec->kind == LA_PUT))
        allowed |= LA_ASSIST;
    if ((rec->flags & ~allowed) != 0 || (rec->flags & (LA_INLINE | LA_LONG)) > LA_INLINE)
        return false;
    if (rec->kind != LA_AM && rec->kind != LA_PUT && (rec->flags & LA_WANTS_FIN) == 0)
        return false;
    return !fetched || ((rec->flags & LA_WANTS_FIN) != 0 && rec->kind != LA_GET &&
                        rec->kind != LA_RMW && rec->kind != LA_RMW64);
}

static bool has_valid_variable(const struct la_record *rec)
{
    if (rec->kind != LA_RMW && rec->kind != LA_RMW64)
        return true;
    return rec->op < LAPI_RMW_END && rec->at != 0 &&
           rec->at % (rec->kind == LA_RMW ? sizeof(uint32_t) : sizeof(uint64_t)) == 0;
}

/* Only long records have it; of atomic operations it is an operand. */
static bool has_valid_len(const struct la_record *rec)
{
    return (rec->flags & LA_LONG) == 0 || rec->kind == LA_RMW || rec->kind == LA_RMW64 ||
           rec->len <= LAPI_MAX_MSG_SZ;
}

bool la_record_is_valid(const struct la_record *rec)
{
    return rec->kind >= LA_AM && rec->kind <= LA_LAST_KIND && has_valid_flags(rec) &&
           has_valid_list(rec) && has_valid_variable(rec) && has_valid_len(rec) &&
           rec->rank < la.job.procs && rec->req < LA_REQS && rec->uhdr_len <= LA_MAX_UHDR &&
           rec->size <= LA_SLOT && (rec->uhdr_len + 7u) / 8 * 8 + rec->size <= room_in(rec);
}
