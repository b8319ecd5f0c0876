/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every return code, once: X(name, meaning, remedy), in the order of enum utofu_return_code, which
 * has the numbers. utofu(3), utofu-info --explain and the texts of utofu_get_last_error() are
 * generated from this table.
 */
X(UTOFU_SUCCESS, "The call did what it was asked for.", "Nothing is to be done.")
X(UTOFU_ERR_NOT_FOUND, "There is no new TCQ entry or MRQ notice. This is an answer, not an error.",
  "Poll again.")
X(UTOFU_ERR_NOT_COMPLETED,
  "The barrier communication is not complete yet. This is an answer, not an error.", "Poll again.")
X(UTOFU_ERR_NOT_PROCESSED, "The request was not carried out. This library never returns it.",
  "Nothing is to be done.")
X(UTOFU_ERR_BUSY,
  "The resource is in use at the moment: the TOQ is full, or a barrier communication is running "
  "on the circuit (a start function), or none is (a poll function).",
  "TOQ: call utofu_poll_tcq() until it returns UTOFU_ERR_NOT_FOUND, then start the communication "
  "again. Circuit: poll the barrier communication to its end before starting the next one, with "
  "the poll function that belongs to the start function.")
X(UTOFU_ERR_USED, "The component id or the STag is in use; another one may be free.",
  "Choose another component id or STag, or free the VCQ or the memory that has it.")
X(UTOFU_ERR_FULL, "All VCQs, VBGs or STADDs of this kind are in use.",
  "Free some (utofu_free_vcq(), utofu_free_vbg(), utofu_dereg_mem()), or use another TNI.")
X(UTOFU_ERR_NOT_AVAILABLE,
  "What was asked for cannot be had in this process: no CQ is left or set aside for this kind of "
  "VCQ, the launcher cannot be asked yet, or the process was made by fork().",
  "Set aside more CQs with UTOFU_NUM_EXCLUSIVE_CQS or UTOFU_NUM_SESSION_MODE_CQS, call the library "
  "after MPI_Init() or before it, and use it in the parent or after exec() only.")
X(UTOFU_ERR_NOT_SUPPORTED,
  "The function cannot do this: for instance, a session-mode VCQ takes Put and NOP only.",
  "Use a free-mode VCQ for it.")
X(UTOFU_ERR_TCQ_OTHER, "The communication could not be sent, for none of the reasons below.",
  "See the text of utofu_get_last_error(): usually memory ran out.")
X(UTOFU_ERR_TCQ_DESC,
  "The TOQ descriptor is wrong. This library finds that out in the start functions and never "
  "returns it.",
  "Nothing is to be done.")
X(UTOFU_ERR_TCQ_MEMORY,
  "The local memory of a put cannot be read: it was unmapped after it was registered, or the "
  "device refused it.",
  "Deregister memory before it is freed or unmapped, and free it when its communications are "
  "complete.")
X(UTOFU_ERR_TCQ_STADD, "The local STADD of a put lies in no registered memory of this VCQ.",
  "Check that the STADD comes from utofu_reg_mem() of this very VCQ and is still registered, and "
  "that what was added to it stays inside the region.")
X(UTOFU_ERR_TCQ_LENGTH, "The local STADD of a put plus the length runs out of the region.",
  "Register all of the memory, or shorten the communication.")
X(UTOFU_ERR_MRQ_OTHER,
  "The communication failed for none of the reasons below, most often because this side's device "
  "or port is down or out of resources.",
  "See the lines on standard error with UTOFU_LOG_LEVEL=warning, and utofu-info --check.")
X(UTOFU_ERR_MRQ_PEER,
  "The remote process cannot be reached: it has ended, has freed the VCQ, never made it, runs "
  "another version of the library, or is silent for longer than UTOFU_PEER_TIMEOUT (then what is "
  "started later tries again).",
  "Look whether the process of that rank still runs and what it said last; check that the VCQ id "
  "is right, that its owner frees the VCQ only when all peers are done, and, on RDMA networks, the "
  "link to its host.")
X(UTOFU_ERR_MRQ_LCL_MEMORY,
  "The local memory of a get cannot be written: it is registered read-only, or it was unmapped.",
  "Register it without UTOFU_REG_MEM_FLAG_READ_ONLY, and deregister memory before it is freed.")
X(UTOFU_ERR_MRQ_RMT_MEMORY,
  "The remote memory cannot be reached: it is registered read-only, or it was unmapped or "
  "deregistered meanwhile.",
  "Register it without UTOFU_REG_MEM_FLAG_READ_ONLY, and let the owner deregister it only when "
  "all peers are done.")
X(UTOFU_ERR_MRQ_LCL_STADD, "The local STADD of a get lies in no registered memory of this VCQ.",
  "Check that the STADD comes from utofu_reg_mem() of this very VCQ and is still registered, and "
  "that what was added to it stays inside the region.")
X(UTOFU_ERR_MRQ_RMT_STADD,
  "The remote STADD lies in no registered memory of the remote VCQ, or the word of an ARMW is not "
  "aligned in it.",
  "Check that the STADD comes from utofu_reg_mem() for that very remote VCQ, that it is registered "
  "before the communication starts and stays so, and that what was added to it stays inside the "
  "region.")
X(UTOFU_ERR_MRQ_LCL_LENGTH, "The local STADD of a get plus the length runs out of the region.",
  "Register all of the memory, or shorten the communication.")
X(UTOFU_ERR_MRQ_RMT_LENGTH, "The remote STADD plus the length runs out of the remote region.",
  "Let the owner register all of the memory, or shorten the communication.")
X(UTOFU_ERR_BARRIER_OTHER,
  "The barrier communication failed, most often because a process of the circuit has ended or has "
  "freed or set its gate anew. The circuit stays broken.",
  "The text of utofu_get_last_error() names the gate and the rank. Set the circuit anew without "
  "it.")
X(UTOFU_ERR_BARRIER_MISMATCH, "The processes of the circuit did not start the same operation.",
  "Call the same function with the same operation, number of values and flags everywhere.")
X(UTOFU_ERR_INVALID_ARG, "An argument is wrong in a way that none of the codes below names.",
  "See the text of utofu_get_last_error().")
X(UTOFU_ERR_INVALID_POINTER, "A pointer is NULL, or not aligned as it has to be.",
  "Give memory for every result; descriptors are aligned to 8 bytes.")
X(UTOFU_ERR_INVALID_FLAGS, "A flag is not defined for this function, or flags exclude each other.",
  "See FLAGS in the manual page of the function.")
X(UTOFU_ERR_INVALID_COORDS, "No node can have these coordinates.",
  "The A, B and C coordinates end at 1, 2 and 1.")
X(UTOFU_ERR_INVALID_PATH, "There is no path over these coordinates.",
  "Path coordinates A, B and C end at 1, 2 and 1; NULL lets the library choose.")
X(UTOFU_ERR_INVALID_TNI_ID, "There is no such TNI.",
  "Use the ids that utofu_get_onesided_tnis() or utofu_get_barrier_tnis() gives: 0 to 5.")
X(UTOFU_ERR_INVALID_CQ_ID, "There is no such CQ.", "CQ ids end at 4095.")
X(UTOFU_ERR_INVALID_BG_ID, "There is no such BG. This library never returns it.",
  "Nothing is to be done.")
X(UTOFU_ERR_INVALID_CMP_ID, "There is no such component id.", "Component ids are 0 to 7.")
X(UTOFU_ERR_INVALID_VCQ_HDL,
  "The VCQ handle names no VCQ of this process: it was freed, or the value never was a handle, or "
  "the process was made by fork().",
  "Use the handle that utofu_create_vcq() gave, until utofu_free_vcq(); an id is not a handle.")
X(UTOFU_ERR_INVALID_VCQ_ID, "The value is not a VCQ id, or the id of a VCQ of another job.",
  "Use what utofu_query_vcq_id() or utofu_construct_vcq_id() gives in a process of the same job; a "
  "handle is not an id.")
X(UTOFU_ERR_INVALID_VBG_ID,
  "The value is not a VBG id, or not the id of a gate that this call takes.",
  "Use the ids of utofu_alloc_vbg(); the first of them is the start/end gate, which barrier "
  "communication is started on when utofu_set_vbg() has set the circuit.")
X(UTOFU_ERR_INVALID_PATH_ID, "There is no such path.", "Path ids are 0 to 11.")
X(UTOFU_ERR_INVALID_STADD,
  "The STADD is not registered on this VCQ, or not aligned to the size of the ARMW.",
  "Deregister with the very STADD that utofu_reg_mem() gave, once for each registration; align "
  "the word of an ARMW to its size.")
X(UTOFU_ERR_INVALID_ADDRESS,
  "The memory cannot be registered: it is not mapped, cannot be written although the flags do not "
  "say read-only, or is not aligned as an STag asks.",
  "Give mapped memory, UTOFU_REG_MEM_FLAG_READ_ONLY for constant data, and addresses that are "
  "multiples of 256 with an STag.")
X(UTOFU_ERR_INVALID_SIZE, "A size or a length is out of range.",
  "See the limits in the manual page of the function and in utofu_query_onesided_caps().")
X(UTOFU_ERR_INVALID_STAG, "There is no such STag.", "STags of the caller are 0 to 255.")
X(UTOFU_ERR_INVALID_EDATA, "The EDATA is out of range.", "EDATA is 0 to 255.")
X(UTOFU_ERR_INVALID_NUMBER, "A number of things is out of range.",
  "See the limits in the manual page of the function.")
X(UTOFU_ERR_INVALID_OP, "The function does not know this operation.",
  "See which operations the function takes; those on double values have functions of their own.")
X(UTOFU_ERR_INVALID_DESC,
  "The descriptor was not made by a prepare function for this VCQ, or was changed since.",
  "Prepare descriptors for the VCQ that they are posted to, and copy them whole.")
X(UTOFU_ERR_INVALID_DATA, "A structure contradicts itself: for instance, a gate is set twice.",
  "Name every gate once in a call of utofu_set_vbg().")
X(UTOFU_ERR_OUT_OF_RESOURCE,
  "Something else than memory ran out: devices, queues, threads, file descriptors.",
  "See the text of utofu_get_last_error() and utofu-info --check; raise the limit that it names.")
X(UTOFU_ERR_OUT_OF_MEMORY, "Memory ran out, or the memory that may be locked.",
  "Raise ulimit -l where devices are used, and see how much memory the process has.")
X(UTOFU_ERR_FATAL,
  "The library cannot start or go on: a variable has a value that is not allowed, the job cannot "
  "be found, a device cannot be used.",
  "See the text of utofu_get_last_error(), the line on standard error, and utofu-info --check.")
