/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of any length, by source and tag; of one source and tag in order. Up to EAGER_MAX bytes
 * go with the header. For longer ones the sender registers the user's memory on one of its VCQs and
 * sends VCQ id, STADD and length; the receiver registers the memory of the matching receive on one
 * of its own, gets the data in pieces, deregisters and says that it has them; then the sender
 * deregisters too.
 */
#include <string.h>

#include "transport.h"

enum kind { EAGER = 1, READY, FINISHED };
enum { MAX_PULLS = 16, PIECE = 100000 };

/* What a sender tells of its data. */
struct ready {
    utofu_vcq_id_t vcq;
    utofu_stadd_t stadd;
    uint64_t length;
};

/* A message before its receive. */
struct early {
    struct early *next;
    int from;
    struct header header;
    char data[];
};

/* Data that are fetched. */
struct pull {
    struct pull *next;
    struct request *receive;
    struct ready ready;
    uint64_t sender; /* the sender's name of its request */
    int pieces;      /* on their way; 0: free */
};

static struct pull pulls[MAX_PULLS];
static struct pull *later, **later_last = &later; /* when one of them is free */
static struct request *receives, **receives_last = &receives;
static struct early *early, **early_last = &early;
static uint64_t fetched;
static int gets[TNIS]; /* on their way */
static int next_tni;

uint64_t message_fetched(void)
{
    return fetched;
}

static int choose_tni(void)
{
    next_tni = (next_tni + 1) % TNIS;
    return next_tni;
}

static void register_data(struct request *request)
{
    request->tni = choose_tni();
    OK(utofu_reg_mem(net_vcq(request->tni), request->data, request->length, 0, &request->stadd));
    if ((request->stadd & 0xffff) != ((uintptr_t)request->data & 0xffff))
        FAIL("memory at %p has STADD %llx", request->data, (unsigned long long)request->stadd);
}

static void deregister_data(struct request *request)
{
    OK(utofu_dereg_mem(net_vcq(request->tni), request->stadd, 0));
    request->done = true;
}

void message_send(struct request *request, int to, uint16_t tag, const void *data, size_t length)
{
    struct header header = {.kind = EAGER, .tag = tag, .length = (uint32_t)length};
    struct ready ready;

    *request = (struct request){.peer = to, .tag = tag, .data = (void *)data, .length = length};
    if (length <= EAGER_MAX) {
        net_send(to, &header, data);
        request->done = true;
        return;
    }
    register_data(request);
    OK(utofu_query_vcq_id(net_vcq(request->tni), &ready.vcq));
    ready.stadd = request->stadd;
    ready.length = length;
    header.kind = READY;
    header.length = sizeof(ready);
    header.request = (uintptr_t)request;
    net_send(to, &header, &ready);
}

/*
 * Rendezvous.
 */

static void start_pull(struct pull *pull, struct pull *what)
{
    struct request *receive = what->receive;
    utofu_vcq_id_t from = what->ready.vcq;
    unsigned int edata = EDATA_GETS + (unsigned int)(pull - pulls);

    *pull = *what;
    register_data(receive);
    OK(utofu_set_vcq_id_path(&from, NULL));
    pull->pieces = (int)((receive->length + PIECE - 1) / PIECE);
    for (size_t at = 0; at < receive->length; at += PIECE) {
        size_t left = receive->length - at;
        gets[receive->tni]++;
        SUBMIT(receive->tni, utofu_get(net_vcq(receive->tni), from, receive->stadd + at,
                                       what->ready.stadd + at, left < PIECE ? left : PIECE, edata,
                                       UTOFU_ONESIDED_FLAG_LOCAL_MRQ_NOTICE, NULL));
    }
}

static void pull_data(struct request *receive, const struct header *header, const void *data)
{
    struct pull pull = {.receive = receive, .sender = header->request}, *waits;

    memcpy(&pull.ready, data, sizeof(pull.ready));
    if (pull.ready.length != receive->length)
        FAIL("rank %d sends %llu bytes with tag %d instead of %zu", receive->peer,
             (unsigned long long)pull.ready.length, receive->tag, receive->length);
    for (int i = 0; i < MAX_PULLS; i++) {
        if (pulls[i].pieces == 0) {
            start_pull(&pulls[i], &pull);
            return;
        }
    }
    waits = malloc(sizeof(*waits));
    *waits = pull;
    *later_last = waits;
    later_last = &waits->next;
}

bool message_has_gets(int tni)
{
    return gets[tni] > 0;
}

int message_source_of_get(unsigned int edata)
{
    return pulls[edata - EDATA_GETS].receive->peer;
}

void message_get_ended(unsigned int edata)
{
    struct pull *pull = &pulls[edata - EDATA_GETS], *waits = later;
    struct header header = {.kind = FINISHED, .request = pull->sender};

    if (edata - EDATA_GETS >= MAX_PULLS || pull->pieces == 0)
        FAIL("get %u has ended and was not started", edata);
    gets[pull->receive->tni]--;
    if (--pull->pieces > 0)
        return;
    deregister_data(pull->receive);
    fetched++;
    net_send(pull->receive->peer, &header, NULL);
    if (waits) {
        later = waits->next;
        if (!later)
            later_last = &later;
        waits->next = NULL;
        start_pull(pull, waits);
        free(waits);
    }
}

/*
 * Matching.
 */

static void match_message(struct request *receive, const struct header *header, const void *data)
{
    if (header->kind == READY) {
        pull_data(receive, header, data);
        return;
    }
    if (header->length != receive->length)
        FAIL("rank %d sends %u bytes with tag %d instead of %zu", receive->peer, header->length,
             receive->tag, receive->length);
    if (header->length > 0)
        memcpy(receive->data, data, header->length);
    receive->done = true;
}

static void keep_early(int from, const struct header *header, const void *data)
{
    struct early *e = malloc(sizeof(*e) + header->length);

    e->next = NULL;
    e->from = from;
    e->header = *header;
    if (header->length > 0)
        memcpy(e->data, data, header->length);
    *early_last = e;
    early_last = &e->next;
}

void message_arrived(int from, const struct header *header, const void *data)
{
    if (header->kind == FINISHED) {
        struct request *sent = (struct request *)(uintptr_t)header->request;
        if (sent->peer != from || sent->done)
            FAIL("rank %d has fetched what was not sent to it", from);
        deregister_data(sent);
        return;
    }
    for (struct request **at = &receives; *at; at = &(*at)->next) {
        struct request *receive = *at;
        if (receive->peer != from || receive->tag != header->tag)
            continue;
        *at = receive->next;
        if (!*at)
            receives_last = at;
        match_message(receive, header, data);
        return;
    }
    keep_early(from, header, data);
}

void message_receive(struct request *request, int from, uint16_t tag, void *data, size_t length)
{
    *request = (struct request){.peer = from, .tag = tag, .data = data, .length = length};
    for (struct early **at = &early; *at; at = &(*at)->next) {
        struct early *e = *at;
        if (e->from != from || e->header.tag != tag)
            continue;
        *at = e->next;
        if (!*at)
            early_last = at;
        match_message(request, &e->header, e->data);
        free(e);
        return;
    }
    *receives_last = request;
    receives_last = &request->next;
}

void message_wait(struct request *request)
{
    while (!request->done)
        if (!net_progress())
            net_idle("a message");
}
