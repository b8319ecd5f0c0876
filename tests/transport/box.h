/* SPDX-License-Identifier: Apache-2.0 */
/* Mailboxes: what box.c gives to net.c. */
#ifndef UT_TEST_TRANSPORT_BOX_H
#define UT_TEST_TRANSPORT_BOX_H

#include "transport.h"

enum { SLOTS = 8 }; /* for the messages of each process */

/* The primary VCQ of a process, and its mailbox. */
struct address {
    utofu_vcq_id_t id;
    utofu_stadd_t stadd;
    unsigned long path; /* flag */
};

void box_open(void);
void box_close(void);
utofu_vcq_hdl_t box_vcq(int tni);
int box_primary(void);
const struct address *box_of(int rank);
/* The rank whose primary VCQ that is. */
int box_find_rank(utofu_vcq_id_t id);

/*
 * Parts of a mailbox, by their offset, which is the same in all of them: at 0 a word that the
 * others may read.
 */
size_t box_fetched(void);  /* the word of another process, read on demand */
size_t box_credit(int of); /* how many messages that process has taken */
size_t box_news(int of);   /* whom that process misses: rank + 1 */
size_t box_beat(int of);   /* the word of that process, read to see whether it lives */
size_t box_slot(bool outgoing, int of, int slot);
char *box_at(size_t offset);
uint64_t box_read(size_t offset);

#endif
