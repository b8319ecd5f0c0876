/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every finding of the check mode, once: X(ID, id, what, remedy, sections of the manual). `what`
 * and `remedy` are one line of a report each. docs/guide/check.md and `utofu-info --check-list`
 * have the same rows.
 */
X(SOURCE, "source-written", "the source of a put was changed before the put was sent",
  "poll the TCQ until the entry of the put comes, then write its source", "2.2.3, 2.2.10")
X(TARGET, "target-written", "the memory that a get is to fill was changed before it was filled",
  "leave it alone until the local notice of the get comes", "2.2.4, 2.2.10")
X(LOCAL, "local-overlap",
  "a get fills local memory that another communication under way reads or fills",
  "wait for the TCQ entry of the put, or the local notice of the get, before the next one starts",
  "2.2.10")
X(UNORDERED, "unordered", "two communications under way use the same remote memory in any order",
  "STRONG_ORDER for the second one, on the same path; or the local notice of the first one before",
  "2.2.10")
X(ARMW_MIXED, "armw-mixed",
  "an ARMW and a put or get of the same remote word are under way in any order",
  "STRONG_ORDER for the second one, on the same path; or the local notice of the first one before",
  "2.2.5, 2.2.10")
X(ARMW_SIZE, "armw-size", "ARMWs of 4 and of 8 bytes on the same remote word are under way",
  "always the same size for a word: nothing says that they are atomic to each other", "2.2.5")
X(ORIGINS, "origins",
  "communications of two processes use the same remote memory at the same time, in any order",
  "memory of its own for each; or the local notice of the first one, and word to the other process",
  "2.2.10")
X(ORIGINS_ARMW, "origins-armw",
  "an ARMW and a put or get of another process use the same remote word at the same time",
  "ARMWs for both; or the local notice of the first one, and word to the other process",
  "2.2.5, 2.2.10")
X(REMOTE, "remote-written", "the remote memory of a put was changed before the put was sent",
  "write it before the other process may put there, or after the notice of the put",
  "2.2.3, 2.2.10")
X(PADDING_FLAG, "padding-flag",
  "PADDING is only for a put with piggyback that has CACHE_INJECTION, too",
  "leave the flag out, or put it on a piggyback put with CACHE_INJECTION", "2.2.11, 3.7.9.1")
X(PADDING_LINE, "padding-line",
  "a put with PADDING may destroy, in its cache line, what another one under way writes",
  "keep the line (256 bytes) of such a put free of other data", "2.2.11")
X(STADD, "local-stadd", "the local STADD is in no memory that is registered on the VCQ",
  "register the memory on this VCQ, and keep it registered", "3.6")
X(DEREG, "deregistered", "memory was deregistered that a communication under way uses",
  "wait for the TCQ entry of the put, or the local notice of the get, before", "3.6")
X(UNMAPPED, "unmapped", "registered memory that a communication uses is not mapped any more",
  "deregister memory before it is freed, and wait for what uses it before that", "3.6")
X(FREED, "vcq-freed", "a VCQ was freed with a communication under way on it",
  "wait for the TCQ entry and the local notice of each communication before", "2.2.10, 3.3.1.3")
X(EXIT, "unfinished", "the process ends with a communication under way",
  "wait for its local notice, or for the answer of the peer, before", "2.2.10, 3.7")
X(CONCURRENT, "concurrent-calls",
  "two threads are in calls at the same time on a VCQ without THREAD_SAFE",
  "create it with THREAD_SAFE, or let no call begin before that of the other thread has ended",
  "2.5, 3.3.4.1")
X(UNREAD, "error-unread", "a communication failed, and nobody has polled its error",
  "poll TCQ and MRQ also where no notice was asked for: errors come there", "3.7")
