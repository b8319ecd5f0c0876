/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write, read and send. The fast path is synchronous: it checks both keys, and stores to mapped
 * memory of the peer, or makes one system call if the memory is not mapped; a message or a notice
 * takes a slot of the peer's ring. Operations that cannot be executed at once go to op_queue.c.
 */
#include "xfer.h"

#include <errno.h>
#include <string.h>

#include "common/atomic_width.h"
#include "common/cma.h"
#include "common/copy_ordered.h"
#include "map.h"
#include "mr.h"
#include "op_queue.h"
#include "ring.h"
#include "sock.h"
#include "types.h"
#include "util/log.h"

/* Returns 0 if operations may be posted, which is already so before the peer's CONFIRM arrives;
 * -EAGAIN: not yet; -ENOTCONN: the connection is not up. */
static inline int check_conn(const struct sp_conn *conn)
{
    uint32_t peer = __atomic_load_n(&conn->peer->state, __ATOMIC_ACQUIRE);

    if (__builtin_expect(conn->state == SP_CONN_UP && peer - SP_PEER_MAPPED <= 1, 1))
        return 0;
    return conn->state == SP_CONN_ACCEPTING ? -EAGAIN : -ENOTCONN;
}
_Static_assert(SP_PEER_UP == SP_PEER_MAPPED + 1, "compared at once");

/* The local memory is not in the region used last: checks its region, and caches the region if it
 * allows reading and writing. */
static __attribute__((noinline)) bool has_local_access_slow(struct sp_conn *conn,
                                                            const struct prov_xfer *xfer,
                                                            unsigned int access)
{
    const unsigned int all = PROV_ACCESS_READ | PROV_ACCESS_WRITE;
    const struct sp_mr_entry *mrs = conn->ep->prov->seg->table.mrs;
    const struct sp_mr_entry *entry = sp_mr_entry_of(mrs, xfer->lkey);
    uint64_t addr = (uintptr_t)xfer->lcl;
    struct prov_mapping lcl_region_cache = {
        .key = xfer->lkey,
        .state = &entry->state,
        .valid_state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE),
        .base = __atomic_load_n(&entry->base, __ATOMIC_RELAXED),
        .size = __atomic_load_n(&entry->size, __ATOMIC_RELAXED)};

    if (xfer->length == 0)
        return true;
    if (!sp_mr_allows(mrs, xfer->lkey, addr, xfer->length, access))
        return false;
    if (sp_mr_allows(mrs, xfer->lkey, addr, xfer->length, all))
        conn->lcl_region_cache = lcl_region_cache;
    return true;
}

/* True if the local key allows this access to the local memory of the operation. */
static inline bool has_local_access(struct sp_conn *conn, const struct prov_xfer *xfer,
                                    unsigned int access)
{
    return (xfer->flags & PROV_INLINE) ||
           prov_mapped_at(&conn->lcl_region_cache, xfer->lkey, (uintptr_t)xfer->lcl,
                          xfer->length) ||
           has_local_access_slow(conn, xfer, access);
}

/* The peer's endpoint was closed: returns -ENOTCONN, and down() follows at the next poll. */
static __attribute__((noinline)) int handle_closed_rmt_ep(struct sp_conn *conn)
{
    __atomic_store_n(&conn->ep->must_check_peers, 1, __ATOMIC_SEQ_CST);
    return -ENOTCONN;
}

/* Returns 0 if both keys are valid for their memory and allow these accesses (0: any); -EPERM: the
 * local key does not; -EACCES: the remote key does not; -ENOTCONN: the peer has closed its
 * endpoint, with its regions deregistered. */
static inline int check_keys(struct sp_conn *conn, const struct prov_xfer *xfer,
                             unsigned int lcl_access, unsigned int rmt_access)
{
    if (xfer->length == 0)
        return 0;
    if (!has_local_access(conn, xfer, lcl_access))
        return -EPERM;
    if (!sp_mr_allows(conn->peer->seg->table.mrs, xfer->rkey, xfer->rmt, xfer->length, rmt_access))
        return sp_conn_rmt_ep_is_open(conn) ? -EACCES : handle_closed_rmt_ep(conn);
    return 0;
}

/* Completes an executed operation: at once if no earlier one is outstanding, else in the queue,
 * which has room, as sp_op_queue_check_room() returned 0 before the operation was executed. */
static inline int finish_op(struct sp_conn *conn, uint64_t cookie)
{
    if (__builtin_expect(!conn->op_queue || !sp_op_queue_has_ops(conn), 1))
        return PROV_COMPLETE | PROV_SRC_FREE;
    sp_op_queue_push_complete(conn, cookie);
    return PROV_SRC_FREE;
}

/* Called before the data of a write with a notice are copied. 0: the notice can follow. */
static inline int check_notice(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    if (!(xfer->flags & PROV_NOTIFY))
        return 0;
    if (!sp_conn_rmt_ep_is_open(conn))
        return handle_closed_rmt_ep(conn);
    return __builtin_expect(sp_ring_has_room(conn->ring, &conn->ring_free_until), 1)
               ? 0
               : sp_handle_full_ring(conn);
}

/* Sends the notice of a write whose data are written, and completes the write. */
static int send_notice(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    bool solicited = xfer->flags & PROV_SOLICITED;
    uint64_t pos;

    if (__builtin_expect(sp_ring_publish_notice(conn->ring, conn->peer->id_in_peer_rings,
                                                conn->rmt_conn_id, xfer->imm, &pos),
                         1)) {
        sp_send_doorbell_if_armed(conn, pos, solicited, sp_ring_load_armed(conn->ring));
        return finish_op(conn, xfer->cookie);
    }
    struct sp_slot *slot = sp_ring_claim(conn->ring, conn->peer->id_in_peer_rings, &pos);
    if (__builtin_expect(!slot, 0)) { /* the ring filled up since the check; the data are written */
        sp_op_queue_push_notice(conn, xfer);
        return PROV_SRC_FREE;
    }
    slot->conn = conn->rmt_conn_id;
    slot->imm = xfer->imm;
    slot->kind = SP_KIND_NOTICE;
    sp_publish_slot(conn, slot, pos, solicited);
    return finish_op(conn, xfer->cookie);
}

/* Finds out whether EFAULT is due to local or remote memory: reading the source changes nothing. */
static int classify_fault(struct sp_conn *conn, const struct prov_xfer *xfer, bool write)
{
    bool ok =
        write ? prov_cma_readable(conn->ep->prov->self.pid, (uintptr_t)xfer->lcl, xfer->length) == 0
              : prov_cma_readable(conn->peer->pid, xfer->rmt, xfer->length) == 0;

    return ok == write ? -EFAULT : -EPERM;
}

/* Returns the error code for a failed copy. -EXDEV: use the rings. */
static int copy_error_code(struct sp_conn *conn, const struct prov_xfer *xfer, bool write, int rc)
{
    switch (rc) {
    case -EFAULT:
        return classify_fault(conn, xfer, write);
    case -ESRCH: /* the peer is dying, and its socket will hang up; or only its main thread has
                    ended */
        __atomic_store_n(&conn->peer->cma, 0, __ATOMIC_RELAXED);
        return -EXDEV;
    case -EPERM:
    case -ENOSYS:
        __atomic_store_n(&conn->peer->cma, 0, __ATOMIC_RELAXED);
        ut_info(SP_LOG,
                "cross-memory attach to process %ld is forbidden now (%s): data is copied "
                "through the rings",
                (long)conn->peer->pid, strerror(-rc));
        return -EXDEV;
    default:
        ut_error(SP_LOG, "%s %u bytes at %#llx of process %ld: %s", write ? "writing" : "reading",
                 xfer->length, (unsigned long long)xfer->rmt, (long)conn->peer->pid, strerror(-rc));
        return -EIO;
    }
}

/* Copies so that the last bytes become visible last (common/copy_ordered.h). */
static inline void copy_in_order(void *to, const void *from, size_t length)
{
    if (__builtin_expect(prov_is_word(to, length), 1))
        prov_move_word(to, from);
    else
        prov_copy_ordered(to, from, length);
}

/* True if cross-memory attach to the peer works. */
static inline bool has_cma(const struct sp_conn *conn)
{
    return __atomic_load_n(&conn->peer->cma, __ATOMIC_RELAXED);
}

/* Copies the piece `done` bytes behind the beginning of the operation. Returns 0 or a negative
 * errno of the copy. */
static int copy_piece(struct sp_conn *conn, const struct prov_xfer *xfer, uint32_t done,
                      const struct sp_piece *piece, bool write)
{
    uint8_t *lcl = (uint8_t *)xfer->lcl + done;
    uint64_t rmt = xfer->rmt + done;

    if (piece->at) {
        if (piece->size >= SP_MAP_BLOCK)
            sp_map_prefault(conn, rmt, piece->size);
        copy_in_order(write ? piece->at : lcl, write ? lcl : piece->at, piece->size);
        return 0;
    }
    if (!has_cma(conn))
        return -ESRCH; /* mapping failed */
    return write ? prov_cma_write(conn->peer->pid, lcl, rmt, piece->size, xfer->flags & PROV_NOTIFY)
                 : prov_cma_read(conn->peer->pid, lcl, rmt, piece->size,
                                 xfer->flags & PROV_DELIVERY_COMPLETE);
}

/* Copies in the order of addresses: mapped memory directly, the rest by cross-memory attach.
 * Returns 0 or copy_error_code(). */
static int copy_in_pieces(struct sp_conn *conn, const struct prov_xfer *xfer, bool write)
{
    void *rmt = (void *)(uintptr_t)xfer->rmt;

    if (conn->peer->is_self) {
        copy_in_order(write ? rmt : xfer->lcl, write ? xfer->lcl : rmt, xfer->length);
        return 0;
    }
    for (uint32_t done = 0; done < xfer->length;) {
        struct sp_piece piece =
            sp_map_piece(conn, xfer->rkey, xfer->rmt + done, xfer->length - done);
        int rc = copy_piece(conn, xfer, done, &piece, write);
        if (__builtin_expect(rc != 0, 0))
            return copy_error_code(conn, xfer, write, rc);
        done += (uint32_t)piece.size;
    }
    return 0;
}

/* True if this process can execute the operation without the peer's CPU, and without overtaking
 * queued operations. */
static bool can_execute_here(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    if (has_cma(conn))
        return !conn->op_queue || !sp_op_queue_waits_for_peer(conn);
    return (!conn->op_queue || !sp_op_queue_has_ops(conn)) &&
           sp_map_covers(conn, xfer->rkey, xfer->rmt, xfer->length);
}

/* True if the CPU of the target must store these bytes. A store of a CPU makes more bytes visible
 * at once than a copy by this machine's kernel (common/atomic_width.h). So a short write of whole
 * words of 8 bytes to memory that is not mapped goes through the ring, and the target's CPU stores
 * it. Accesses to missing memory are left to the kernel, which reports them. */
static bool needs_target_cpu(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    return prov_store_width() > prov_kernel_width() &&
           prov_needs_atomic_pieces(xfer->rmt, xfer->length) && !conn->peer->is_self &&
           has_cma(conn) && !sp_map_covers(conn, xfer->rkey, xfer->rmt, xfer->length) &&
           sp_mr_small_writes_need_cpu(conn->peer->seg->table.mrs, xfer->rkey) &&
           prov_cma_readable(conn->peer->pid, xfer->rmt, xfer->length) == 0;
}

/* Writes by mappings other than the last one, cross-memory attach, or the rings. */
static __attribute__((noinline)) int write_slow(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    int rc = check_keys(conn, xfer, 0, PROV_ACCESS_WRITE);

    if (rc != 0)
        return rc;
    if (!can_execute_here(conn, xfer) || needs_target_cpu(conn, xfer))
        return sp_op_queue_write(conn, xfer);
    if (conn->op_queue != NULL && (rc = sp_op_queue_check_room(conn)) != 0)
        return rc;
    rc = check_notice(conn, xfer);
    if (rc != 0)
        return rc;
    rc = copy_in_pieces(conn, xfer, true);
    if (rc != 0)
        return rc == -EXDEV ? sp_op_queue_write(conn, xfer) : rc;
    return xfer->flags & PROV_NOTIFY ? send_notice(conn, xfer) : finish_op(conn, xfer->cookie);
}

static __attribute__((noinline)) int read_slow(struct sp_conn *conn, const struct prov_xfer *xfer)
{
    int rc = check_keys(conn, xfer, PROV_ACCESS_WRITE, PROV_ACCESS_READ);

    if (rc != 0)
        return rc;
    if (!can_execute_here(conn, xfer))
        return sp_op_queue_read(conn, xfer);
    if (conn->op_queue != NULL && (rc = sp_op_queue_check_room(conn)) != 0)
        return rc;
    rc = copy_in_pieces(conn, xfer, false);
    if (rc != 0)
        return rc == -EXDEV ? sp_op_queue_read(conn, xfer) : rc;
    return finish_op(conn, xfer->cookie);
}

/* Prefaults mapped memory of the peer before a large copy. */
static inline void prefault_window(struct sp_conn *conn, uint64_t rmt, uint32_t length)
{
    if (length >= SP_MAP_BLOCK)
        sp_map_prefault(conn, rmt, length);
}

/* Fast path: memory in the connection's mapping. */
int sp_write(struct prov_conn *base, const struct prov_xfer *xfer)
{
    struct sp_conn *conn = sp_conn_of(base);
    int rc = check_conn(conn);

    if (__builtin_expect(rc != 0, 0))
        return rc;
    uint8_t *to = prov_mapped_at(&conn->mapping, xfer->rkey, xfer->rmt, xfer->length);
    if (__builtin_expect(!to, 0))
        return write_slow(conn, xfer);
    if (__builtin_expect(!has_local_access(conn, xfer, 0), 0))
        return -EPERM;
    rc = check_notice(conn, xfer);
    if (__builtin_expect(rc != 0, 0))
        return rc;
    prefault_window(conn, xfer->rmt, xfer->length);
    copy_in_order(to, xfer->lcl, xfer->length);
    return xfer->flags & PROV_NOTIFY ? send_notice(conn, xfer) : PROV_COMPLETE | PROV_SRC_FREE;
}

int sp_read(struct prov_conn *base, const struct prov_xfer *xfer)
{
    struct sp_conn *conn = sp_conn_of(base);
    int rc = check_conn(conn);

    if (__builtin_expect(rc != 0, 0))
        return rc;
    const uint8_t *from = prov_mapped_at(&conn->mapping, xfer->rkey, xfer->rmt, xfer->length);
    if (__builtin_expect(!from, 0))
        return read_slow(conn, xfer);
    if (__builtin_expect(!has_local_access(conn, xfer, PROV_ACCESS_WRITE), 0))
        return -EPERM;
    prefault_window(conn, xfer->rmt, xfer->length);
    copy_in_order(xfer->lcl, from, xfer->length);
    return PROV_COMPLETE | PROV_SRC_FREE;
}

const struct prov_mapping *sp_mapping(struct prov_conn *base)
{
    return &sp_conn_of(base)->mapping;
}

int sp_send(struct prov_conn *base, const void *data, size_t size, unsigned int flags,
            uint64_t cookie)
{
    struct sp_conn *conn = sp_conn_of(base);
    int rc = check_conn(conn);
    uint64_t pos;

    if (__builtin_expect(rc != 0, 0))
        return rc;
    if (__builtin_expect(conn->op_queue != NULL, 0)) {
        if ((flags & PROV_FENCE) && sp_op_queue_has_reads(conn))
            return -EAGAIN;
        if ((rc = sp_op_queue_check_room(conn)) != 0)
            return rc;
    }
    if (__builtin_expect(size > PROV_MSG_MAX, 0)) {
        ut_error(SP_LOG, "cannot send a message of %zu bytes: the limit is %d", size,
                 (int)PROV_MSG_MAX);
        return -EIO;
    }
    if (!sp_conn_rmt_ep_is_open(conn))
        return handle_closed_rmt_ep(conn);
    struct sp_slot *slot = sp_ring_claim(conn->ring, conn->peer->id_in_peer_rings, &pos);
    if (__builtin_expect(!slot, 0))
        return sp_handle_full_ring(conn);
    slot->conn = conn->rmt_conn_id;
    slot->kind = SP_KIND_MESSAGE;
    slot->size = (uint16_t)size;
    slot->flags = size > SP_INLINE ? SP_SLOT_BIG : 0;
    memcpy(size > SP_INLINE ? sp_ring_payload(conn->ring, pos) : slot->bytes, data, size);
    sp_publish_slot(conn, slot, pos, flags & PROV_SOLICITED);
    return finish_op(conn, cookie);
}

int sp_atomic(struct prov_conn *conn, const struct prov_atomic *atomic)
{
    (void)conn;
    (void)atomic;
    return -EIO; /* caps report no atomics */
}

void *sp_direct(struct prov_conn *base, uint64_t rmt, uint32_t length, uint32_t rkey)
{
    struct sp_conn *conn = sp_conn_of(base);
    const unsigned int all = PROV_ACCESS_READ | PROV_ACCESS_WRITE;

    if (check_conn(conn) != 0 || (conn->op_queue && sp_op_queue_has_ops(conn)))
        return NULL;
    void *at = prov_mapped_at(&conn->mapping, rkey, rmt, length);
    if (__builtin_expect(at != NULL, 1))
        return at;
    if (!sp_mr_allows(conn->peer->seg->table.mrs, rkey, rmt, length, all))
        return NULL;
    if (conn->peer->is_self)
        return (void *)(uintptr_t)rmt;
    struct sp_piece piece = sp_map_piece(conn, rkey, rmt, length);
    return piece.size == length ? piece.at : NULL;
}
