/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every counter, once: COUNTER(ID, HOLDERS, HOW, name in a line, name in the summary of a job,
 * meaning).
 * HOLDERS: which lines have the counter: VCQ, PEER (of a VCQ), BOTH, GATE (of barriers), or JOB:
 * none. HOW: SUM: only grows. TIME: also only grows; stored in ns, printed in ms in a line, in us
 * in a summary. MOST: a high-water mark.
 * A counter of BOTH is added up over the VCQs. NULL: not in a line, or not in the summary. The
 * counters before PEERS only grow, so that the counters of a region are the difference of two rows.
 * A new row makes the field, and all code that merges, prints and adds up; the engine must count
 * it. A counter needs a row in docs/guide/tracing.md, which tests/stats/check_counters.py --fix
 * makes from this table, and a test that names it.
 */
COUNTER(PUTS, BOTH, SUM, "puts", "puts",
        "puts that were started; Put Piggyback is one, and so is each block of a stride")
COUNTER(PUT_BYTES, BOTH, SUM, "put_bytes", "put_bytes", "their bytes")
COUNTER(GETS, BOTH, SUM, "gets", "gets", "gets that were started")
COUNTER(GET_BYTES, BOTH, SUM, "get_bytes", "get_bytes", "their bytes")
COUNTER(ARMWS, BOTH, SUM, "armws", "armws", "ARMW that were started")
COUNTER(NOPS, BOTH, SUM, "nops", "nops", "NOPs that were started")
COUNTER(ARRIVALS, BOTH, SUM, "arrivals", "arrivals",
        "communications of others that this VCQ is notified of: those with a remote notice or an "
        "SPS, or that its CPU has to execute; a put without any of these is not counted")
COUNTER(LCL_PUT_NOTICES, BOTH, SUM, "lcl_put_notices", "lcl_put_notices",
        "MRQ notices of this type that were written, errors included")
COUNTER(RMT_PUT_NOTICES, BOTH, SUM, "rmt_put_notices", "rmt_put_notices", "the same")
COUNTER(LCL_GET_NOTICES, BOTH, SUM, "lcl_get_notices", "lcl_get_notices", "the same")
COUNTER(RMT_GET_NOTICES, BOTH, SUM, "rmt_get_notices", "rmt_get_notices", "the same")
COUNTER(LCL_ARMW_NOTICES, BOTH, SUM, "lcl_armw_notices", "lcl_armw_notices", "the same")
COUNTER(RMT_ARMW_NOTICES, BOTH, SUM, "rmt_armw_notices", "rmt_armw_notices", "the same")
COUNTER(FAILED, BOTH, SUM, "failed", "failed",
        "communications that ended with an error in the TCQ or the MRQ")
COUNTER(BUSY, VCQ, SUM, "busy", "busy",
        "calls that returned UTOFU_ERR_BUSY because the TOQ was full")
COUNTER(EMPTY_POLLS, VCQ, SUM, "empty_polls", "empty_polls", "polls that found nothing")
COUNTER(CROWDED, VCQ, SUM, "crowded", "crowded",
        "verbs, with a shared receive queue: how often half of what the VCQ can receive had "
        "arrived before it was polled; its peers may have waited. Many of them, of a VCQ that many "
        "others put to: poll more often, or raise UTOFU_VERBS_TUNE=srq_depth")
COUNTER(BLOCKED, BOTH, TIME, "blocked_ms", "blocked_us",
        "of a VCQ: the time spent in empty polls; those at most 10 ms apart count as one wait, "
        "until something arrives. Of a peer: the time in which a communication waited before it "
        "could be posted: for the connection, a free queue entry, an STag entry")
COUNTER(RETRIES, PEER, SUM, "retries", "retries",
        "how often the transport's queue was full, or a communication was repeated")
COUNTER(RECONNECTS, PEER, SUM, "reconnects", "reconnects",
        "connections that were established again, also because a longer send queue was wanted")
COUNTER(RESTS, PEER, SUM, "rests", "rests",
        "connections that were closed because there were more than UTOFU_VERBS_MAX_QPS, or the "
        "device's; many of them: raise it")
COUNTER(PARTED, PEER, SUM, "parted", "parted",
        "puts that went in parts, by several ports: UTOFU_VERBS_TUNE=rails")
COUNTER(BARRIERS, GATE, SUM, "started", "barriers", "barrier communications of a start gate")
COUNTER(BARRIERS_FINISHED, GATE, SUM, "finished", NULL, "of these, those that ended well")
COUNTER(BARRIERS_FAILED, GATE, SUM, "failed", "barriers_failed",
        "of these, those that ended with an error")
COUNTER(SIGNALS_OUT, GATE, SUM, "signals_out", NULL, "signals that the gate sent to others")
COUNTER(PACKETS_OUT, GATE, SUM, "packets_out", NULL, "packets that it sent to others")
COUNTER(SIGNALS_IN, GATE, SUM, "signals_in", NULL, "signals that it received")
COUNTER(PACKETS_IN, GATE, SUM, "packets_in", NULL, "packets that it received")
COUNTER(BARRIER_BLOCKED, GATE, TIME, "blocked_ms", "barrier_blocked_us",
        "the time from the start of barrier communications to their results")
COUNTER(PEERS, JOB, SUM, NULL, "peers",
        "remote VCQs that a rank communicated with, counted for each VCQ")
COUNTER(MOST_UNDER_WAY, BOTH, MOST, "most_under_way", "most_under_way",
        "high-water mark of communications that are submitted and not complete; in the summary the "
        "highest of any VCQ")
COUNTER(MOST_IN_MRQ, VCQ, MOST, "most_in_mrq", "most_in_mrq",
        "high-water mark of MRQ entries in use; in the summary the highest of any VCQ")
