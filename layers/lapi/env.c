/* SPDX-License-Identifier: Apache-2.0 */
/* LAPI_Qenv(), LAPI_Senv(), and the functions that access the table of addresses. */
#include "hdr_handlers.h"
#include "lock.h"
#include "wait.h"

#include <limits.h>

static int get_env_value(lapi_query_t query)
{
    const int values[] = {
        [TASK_ID] = (int)la.job.rank,
        [NUM_TASKS] = (int)la.job.procs,
        [MAX_UHDR_SZ] = LA_MAX_UHDR_SIZE,
        [MAX_DATA_SZ] = INT_MAX,
        [MAX_PKT_SZ] = LA_LONG_HEADER_CAPACITY,
        [ERROR_CHK] = la.error_chk,
        [TIMEOUT] = (int)lc_env_number("UTOFU_PEER_TIMEOUT", 30),
        [INTERRUPT_SET] = la.interrupts,
        [LOC_ADDRTBL_SZ] = LAPI_ADDRTBL_SZ,
        [EPOCH_NUM] = la.num_inits,
        [NUM_LOST] = la.watch.num_gone,
    };

    _Static_assert(sizeof(values) / sizeof(values[0]) == LAST_QUERY, "one for each query");
    return values[query];
}

int LAPI_Qenv(lapi_handle_t hndl, lapi_query_t query, int *ret_val)
{
    int rc = LAPI_SUCCESS;

    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if ((unsigned int)query >= LAST_QUERY)
        rc = LAPI_ERR_QUERY_TYPE;
    else if (ret_val == NULL)
        rc = LAPI_ERR_RET_PTR_NULL;
    else
        *ret_val = get_env_value(query);
    la_unlock();
    return rc;
}

/* Joins the thread with the lock held, because the thread only tries to take the lock. */
static int set_interrupts(bool on)
{
    if (!la_may_wait())
        return LAPI_ERR_IN_HNDLR;
    if (on == la.interrupts)
        return LAPI_SUCCESS;
    if (on) {
        la.interrupts = la_interrupt_thread_start();
        return la.interrupts ? LAPI_SUCCESS : LAPI_ERR_MEMORY_EXHAUSTED;
    }
    la.interrupts = false;
    la_interrupt_thread_stop();
    return LAPI_SUCCESS;
}

static int set_env_value(lapi_query_t query, int value)
{
    if (query != INTERRUPT_SET && query != ERROR_CHK)
        return LAPI_ERR_QUERY_TYPE;
    if (value != 0 && value != 1)
        return LAPI_ERR_SET_VAL;
    if (query == INTERRUPT_SET)
        return set_interrupts(value == 1);
    la.error_chk = value; /* arguments are checked in any case */
    return LAPI_SUCCESS;
}

int LAPI_Senv(lapi_handle_t hndl, lapi_query_t query, int set_val)
{
    int rc;

    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    rc = set_env_value(query, set_val);
    la_unlock();
    return rc;
}

int LAPI_Address(void *my_addr, lapi_long_t *ret_addr)
{
    if (ret_addr == NULL)
        return LAPI_ERR_RET_PTR_NULL;
    *ret_addr = (uintptr_t)my_addr;
    return LAPI_SUCCESS;
}

static int check_index(lapi_handle_t hndl, int addr_hndl)
{
    if (!la_lock_if_valid(hndl))
        return LAPI_ERR_HNDL_INVALID;
    if (addr_hndl >= 1 && addr_hndl < LAPI_ADDRTBL_SZ)
        return LAPI_SUCCESS;
    la_unlock();
    return LAPI_ERR_ADDR_HNDL_RANGE;
}

int LAPI_Addr_set(lapi_handle_t hndl, void *addr, int addr_hndl)
{
    int rc = check_index(hndl, addr_hndl);

    if (rc != LAPI_SUCCESS)
        return rc;
    la_hdr_handlers_set(addr_hndl, addr);
    la_unlock();
    return LAPI_SUCCESS;
}

int LAPI_Addr_get(lapi_handle_t hndl, void **addr, int addr_hndl)
{
    int rc = check_index(hndl, addr_hndl);

    if (rc != LAPI_SUCCESS)
        return rc;
    if (addr != NULL)
        *addr = la_hdr_handlers_get(addr_hndl);
    la_unlock();
    return addr == NULL ? LAPI_ERR_RET_PTR_NULL : LAPI_SUCCESS;
}
