/* SPDX-License-Identifier: Apache-2.0 */
/* What a case of utofu-conform may use. Each case is a function that every process of the job
   calls; it makes calls of utofu.h, waits with the functions below, and records what it saw. C99,
   utofu.h and, in system.c alone, POSIX or MPI: the sources are carried to machines whose uTofu is
   not ours.

   A ring orders the processes: a process puts to the next one and receives from the previous one,
   so that each case runs with 2 to 48 processes, on one node or on several. A case that fails in
   one process ends there; the other processes are told at their next cf_share() and end, too; the
   next case starts afresh with VCQs and memory of its own. */
#ifndef UTOFU_CONFORM_H
#define UTOFU_CONFORM_H

#include <stddef.h>
#include <stdint.h>
#include <utofu.h>

/* What the manual says of the behaviour that a case looks at */
enum cf_kind {
    CF_PROMISED, /* the sentence must hold: the outcome is "holds" or "fails" */
    CF_OPEN, /* the sentence allows several behaviours: the outcome is which happened, and how often
              */
    CF_UNSAID /* the manual is silent: the outcome is what happened */
};

/* What a case needs, or does to the machine */
enum {
    CF_RISKY = 1,   /* might hang the machine or end the process: runs only with --risky */
    CF_ALONE = 2,   /* calls nothing of other processes: cf_share() is not used */
    CF_SESSION = 4, /* needs VCQs in session mode */
    CF_BARRIER = 8, /* needs barrier communication */
    CF_ARMW = 16,   /* needs atomic communication */
    CF_SLOW = 32    /* takes more than a second or much memory: left out with --quick */
};

struct cf; /* this process in the case that runs */

struct cf_case {
    const char *name; /* "put-notice-edata": letters, digits and hyphens, unique in the program */
    const char *section; /* of the manual: "3.7.1.1" */
    int sentence; /* the number of the sentence in the section, from 1; 0 if no sentence says it
                     (CF_UNSAID) */
    enum cf_kind kind;
    int needs;        /* CF_RISKY and others, or 0 */
    const char *says; /* in one English sentence: what is promised, left open, or asked */
    void (*run)(struct cf *c);
};

struct cf_group {
    const char *name; /* "put" */
    const struct cf_case *cases;
    size_t count;
};
#define CF_GROUP(variable, group_name, table)                                                      \
    const struct cf_group variable = {group_name, table, sizeof(table) / sizeof(table)[0]}

/* ---- What a case sees ---- */
/* Records a failure of a promise, as printf would print it, and goes on: use it with a return where
   nothing more can be tried. Not for CF_OPEN and CF_UNSAID, but for what must hold there, too (a
   success of the preparation). */
void cf_fail(struct cf *c, const char *format, ...);
/* Fails with the text unless the condition is true */
#define CF_HOLDS(c, condition, ...)                                                                \
    do {                                                                                           \
        if (!(condition))                                                                          \
            cf_fail(c, __VA_ARGS__);                                                               \
    } while (0)
/* Fails with the text and leaves the case unless the condition is true */
#define CF_NEED(c, condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            cf_fail(c, __VA_ARGS__);                                                               \
            return;                                                                                \
        }                                                                                          \
    } while (0)
/* Counts one occurrence of an outcome that is left open or not said: a few words of letters,
   digits, '-' and ' '. At most 16 different words in a case. Counts of all processes are added. */
void cf_saw(struct cf *c, const char *outcome);
/* A number that is left open or not said, with its name: the smallest and the largest of all
 * processes are reported */
void cf_number(struct cf *c, const char *name, double value);
/* The case cannot be judged here, for the reason that is given (a capability that is missing, too
   few CQs): the outcome is "not tried" */
void cf_skip(struct cf *c, const char *format, ...);
int cf_failed(const struct cf *c); /* whether this process has recorded a failure in this case */
const char *cf_code(int code);     /* "UTOFU_ERR_FULL (-6)" */

/* ---- The job ---- */
int cf_rank(const struct cf *c);
int cf_size(const struct cf *c); /* processes: 2 to 48 */
int cf_next(const struct cf *c); /* the rank behind this one in the ring; with two processes next
                                    and previous are one */
int cf_prev(const struct cf *c);
/* Gives bytes (at most 256) of this process to all, and fetches those of all, in the order of
   ranks; a barrier besides. Not 0 if all have given theirs; 0 if a process has left the case, or 20
   seconds have passed: then the case ends here, without a failure of its own. Every process calls
   it as often as the others do. */
int cf_share(struct cf *c, const void *mine, size_t bytes, void *all);
int cf_meet(struct cf *c); /* cf_share() of nothing */
/* A number below the limit from the sequence of this case, the same in each run with the same
 * --seed */
uint32_t cf_random(struct cf *c, uint32_t below);

/* ---- Waiting: each function gives the processor away and ends after 10 seconds ---- */
double cf_now(void); /* seconds */
void cf_rest(double seconds);
int cf_tcq(utofu_vcq_hdl_t vcq, void **cbdata); /* what utofu_poll_tcq() returned at last */
int cf_mrq(utofu_vcq_hdl_t vcq,
           struct utofu_mrq_notice *notice); /* what utofu_poll_mrq() returned at last */
/* As cf_tcq() and cf_mrq(), but for so many seconds: to see that nothing comes */
int cf_tcq_within(utofu_vcq_hdl_t vcq, double seconds, void **cbdata);
int cf_mrq_within(utofu_vcq_hdl_t vcq, double seconds, struct utofu_mrq_notice *notice);
/* Until the word has the value: not 0 if it has. 'vcq' is polled with utofu_query_num_unread_tcq(),
 * which takes nothing. */
int cf_word(utofu_vcq_hdl_t vcq, const volatile uint64_t *word, uint64_t value);
/* Ends as the call itself does, but for UTOFU_ERR_BUSY and UTOFU_ERR_FULL: then the call is made
   again for 10 seconds, and the TCQ is polled in between, entries of it being lost. CF_RETRY(rc,
   vcq, utofu_put(...)); */
#define CF_RETRY(rc, vcq, call)                                                                    \
    do {                                                                                           \
        double cf_until = cf_now() + 10;                                                           \
        while (((rc) = (call)) == UTOFU_ERR_BUSY || (rc) == UTOFU_ERR_FULL) {                      \
            if (cf_now() > cf_until || cf_give_way(vcq) == 0)                                      \
                break;                                                                             \
        }                                                                                          \
    } while (0)
int cf_give_way(utofu_vcq_hdl_t vcq); /* polls the TCQ once and gives the processor away; not 0 */

/* Runs the function in so many threads at a time, with the numbers 0 to count - 1, and waits for
   them. Not 0 if all have run. In them a case may call utofu.h and the functions above that wait,
   and keeps what it sees in the argument: cf_fail() and the others are for the thread of the case.
 */
int cf_threads(int count, void (*run)(int thread, void *argument), void *argument);

/* ---- Both ends of a communication with the neighbours ---- */
struct cf_ends {
    utofu_vcq_hdl_t vcq;
    utofu_vcq_id_t id, next_id, prev_id; /* of this process and of its neighbours */
    size_t size;                         /* bytes of each of the two buffers */
    unsigned char *send,
        *recv; /* aligned to 256 bytes; send is filled with a pattern of the rank, recv with 0 */
    utofu_stadd_t send_stadd, recv_stadd;
    utofu_stadd_t next_send, next_recv, prev_send,
        prev_recv; /* STADDs of the neighbours' buffers */
};
/* Creates a VCQ with the flags on the TNI with that place among those of utofu_get_onesided_tnis()
   (modulo their number), registers two buffers and shares the ids. Not 0 if all processes have
   theirs; else the case has failed or is left. Every process calls it. */
int cf_open(struct cf *c, struct cf_ends *e, size_t tni_place, unsigned long vcq_flags,
            size_t bytes);
/* Meets the others, then gives everything back; right after a cf_open() that failed, too. A case
   calls it on each way out that it takes by itself; what a case forgets to close is closed behind
   it. */
void cf_close(struct cf *c, struct cf_ends *e);
unsigned char cf_pattern(int rank,
                         size_t at); /* the byte at that place of the send buffer of the rank */
/* The place of the first byte that is not as the send buffer of the rank has it, or 'bytes' if all
 * are */
size_t cf_differs(const unsigned char *bytes_seen, int rank, size_t from, size_t bytes);
void *cf_alloc(size_t bytes); /* aligned to 256 bytes, filled with 0; the program ends with a
                                 message without memory */
void cf_free(void *memory);

#endif
