/* SPDX-License-Identifier: Apache-2.0 */
#include "info.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"
#include "shuffle/shuffle.h"
#include "util/env.h"

enum { COLUMNS = 80, LABEL = 14, INDENT = 4 };

static void label(const char *text)
{
    printf("%-*s", LABEL, text);
}

/* Prints words from column `at` on, with the same indentation on further lines. */
static void wrap(const char *text, int at, const char *prefix)
{
    int column = at;

    while (*text) {
        int n = (int)strcspn(text, " ");
        if (column > at && column + 1 + n > COLUMNS) {
            printf("\n%s%*s", prefix, at, "");
            column = at;
        } else if (column > at) {
            putchar(' ');
            column++;
        }
        printf("%.*s", n, text);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_job(const struct info *info)
{
    const struct ut_job_info *job = info->process->job;
    const uint8_t *at = info->coords;

    label("job");
    printf("rank %u of %u, process of host %s\n", job->rank, job->size, info->host);
    label("  launcher");
    printf("%s%s%s\n", info_launcher(job->launcher), *job->id ? ", job " : "", job->id);
    label("  node");
    printf("%u", job->node);
    if (job->num_nodes)
        printf(" of %u", job->num_nodes);
    printf(", coordinates %u,%u,%u,%u,%u,%u (X,Y,Z,A,B,C)\n", at[0], at[1], at[2], at[3], at[4],
           at[5]);
    label("  local rank");
    printf("%u of %u\n", job->local_rank, job->local_size);
}

static void print_reach(const struct info *info)
{
    int in_use = 0;

    for (int p = 0; p < PROV_COUNT; p++)
        in_use += info->process->prov[p] != NULL;
    for (int p = 0, before = 0; p < PROV_COUNT; p++) {
        bool network = prov_registry[p].reach == PROV_REACH_NETWORK;
        if (!info->process->prov[p])
            continue;
        printf("%s%s%s", before++ ? ", " : "", prov_registry[p].name,
               in_use == 1 ? (network ? " for everything" : ": this host only")
                           : (network ? " to other hosts" : " on this host"));
    }
    printf("\n");
}

static void print_shuffle(void)
{
    if (!ut_shuffle_is_on())
        return;
    label("  shuffled");
    printf("UTOFU_SHUFFLE=%llu, level %llu: slow and out of order, to find errors of programs\n",
           (unsigned long long)ut_env_num(UT_ENV_SHUFFLE),
           (unsigned long long)ut_env_num(UT_ENV_SHUFFLE_LEVEL));
}

static void print_check(void)
{
    if (!ut_check_on)
        return;
    label("  checked");
    printf("UTOFU_CHECK=%s: communications are held back, to find errors of programs\n",
           ut_env_num(UT_ENV_CHECK) == 1 ? "1" : "abort");
}

static void print_transports(const struct info *info)
{
    label("provider");
    print_reach(info);
    print_shuffle();
    print_check();
    label("  why");
    wrap(info->provider_why, LABEL, "");
    for (int p = 0; p < PROV_COUNT; p++) {
        if (!info->process->prov[p] || info->num_tnis == 0)
            continue;
        const struct prov_caps *caps = &info->tnis[0].transport[p];
        char name[32];
        snprintf(name, sizeof(name), "  %s", info->process->prov[p]->ops->name);
        label(name);
        bool has_ports = prov_registry[p].ops->survey != NULL; /* these are listed separately */
        printf("%s%smessages to %u bytes, inline to %u\n", has_ports ? "" : caps->device,
               has_ports ? "" : "; ", caps->max_message, caps->max_inline);
    }
    label("atomics");
    printf("by %s\n", info->process->armw_mode == UT_ARMW_NIC ? "the network adapter (nic)"
                                                              : "the target's CPU (cpu)");
    label("  why");
    wrap(info->armw_why, LABEL, "");
}

static void print_cqs(const struct info *info)
{
    const struct ut_process *p = info->process;

    label("CQs");
    printf("of each TNI:");
    for (unsigned int i = 0; i < p->num_cqs; i++)
        printf("%s%u", i ? ", " : " ", p->cq_ids[i]);
    printf("\n");
    label("");
    printf("%u for exclusive VCQs, %u for session mode, %u for the others\n", p->num_exclusive,
           p->num_session, p->num_cqs - p->num_exclusive - p->num_session);
}

static void print_receives(const struct prov_port *p)
{
    if (!p->srq_depth && !p->rq_depth)
        return;
    label("");
    if (p->srq_depth)
        printf("%u receives, shared by the connections of a VCQ\n", p->srq_depth);
    else
        printf("%u receives for each connection: no shared receive queue\n", p->rq_depth);
}

static void print_ports(const struct info *info)
{
    printf("RDMA ports    %s\n", info->num_ports ? "" : "none");
    for (unsigned int i = 0; i < info->num_ports; i++) {
        const struct prov_port *p = &info->ports[i];
        char name[80];
        snprintf(name, sizeof(name), "  %s:%u", p->device, p->port);
        label(name);
        printf("%s%s%s%s%s", p->state, *p->link ? ", " : "", p->link, *p->netdev ? " on " : "",
               p->netdev);
        if (p->mtu)
            printf(", MTU %u of %u", p->mtu, p->max_mtu);
        if (p->speed)
            printf(", %g Gbit/s", p->speed / 1000.0);
        if (p->numa_node >= 0)
            printf(", NUMA node %d", p->numa_node);
        printf("\n");
        if (p->gid_index >= 0) {
            label("");
            printf("GID %d: %s\n", p->gid_index, p->gid);
        }
        label("");
        if (!p->tnis) {
            printf("not used: %s\n", p->why_not);
            continue;
        }
        printf("listens at %s in %s, connects by %s, atomics %s, inline to %u bytes\n", p->address,
               p->network, p->connects_by, p->atomics, p->max_inline);
        label("");
        if (p->order_unit)
            printf("data in any order but for units of %u bytes: %s\n", p->order_unit,
                   p->order_why);
        else
            printf("data in %s: %s\n", p->any_order ? "any order" : "order", p->order_why);
        if (p->relaxed_keys) {
            label("");
            printf("memory is registered with relaxed ordering\n");
        }
        if (p->ece_options) {
            label("");
            printf("offers enhancements (ECE) of vendor %#x: %#x\n", p->ece_vendor, p->ece_options);
        }
        if (p->max_conns) {
            label("");
            printf("at most %u connections of this process\n", p->max_conns);
        }
        label("");
        printf("%s\n", p->parts);
        print_receives(p);
        label("");
        printf("TNI");
        for (unsigned int t = 0; t < UT_NUM_TNIS; t++)
            if (p->tnis & 1u << t)
                printf(" %u", t);
        printf("\n");
    }
}

static void print_capabilities(const struct info *info)
{
    const struct info_tni *first = &info->tnis[0];
    char names[128];

    label("TNIs");
    for (unsigned int i = 0; i < info->num_tnis; i++)
        printf("%s%u", i ? ", " : "", info->tnis[i].id);
    printf("; each of them:\n");
    if (info->num_tnis && first->onesided) {
        const struct utofu_onesided_caps *c = first->onesided;
        info_bits(names, sizeof(names), c->flags, info_onesided_flags);
        label("  one-sided");
        printf("%s\n", names);
        info_bits(names, sizeof(names), c->armw_ops, info_armw_ops);
        printf("    %-24s %s\n", "armw_ops", names);
        printf("    %-24s %u\n", "num_cmp_ids", c->num_cmp_ids);
        printf("    %-24s %u\n", "num_reserved_stags", c->num_reserved_stags);
        printf("    %-24s %zu\n", "cache_line_size", c->cache_line_size);
        printf("    %-24s %zu\n", "stag_address_alignment", c->stag_address_alignment);
        printf("    %-24s %zu\n", "max_toq_desc_size", c->max_toq_desc_size);
        printf("    %-24s %zu\n", "max_putget_size", c->max_putget_size);
        printf("    %-24s %zu\n", "max_piggyback_size", c->max_piggyback_size);
        printf("    %-24s %zu\n", "max_edata_size", c->max_edata_size);
        printf("    %-24s %zu\n", "max_mtu", c->max_mtu);
        printf("    %-24s %zu\n", "max_gap", c->max_gap);
    }
    if (info->num_tnis && first->barrier) {
        info_bits(names, sizeof(names), first->barrier->reduce_ops, info_reduce_ops);
        printf("  barrier\n");
        printf("    %-24s %s\n", "reduce_ops", names);
        printf("    %-24s %zu\n", "max_uint64_reduction", first->barrier->max_uint64_reduction);
        printf("    %-24s %zu\n", "max_double_reduction", first->barrier->max_double_reduction);
    }
}

void info_print(const struct info *info)
{
    printf("utofu-verbs   %s; uTofu %d.%d, Tofu %d.%d\n", UT_VERSION, info->utofu_version[0],
           info->utofu_version[1], info->tofu_version[0], info->tofu_version[1]);
    if (!info->process) {
        label("error");
        wrap(info->error, LABEL, "");
        print_ports(info);
        return;
    }
    print_job(info);
    print_transports(info);
    print_cqs(info);
    print_ports(info);
    print_capabilities(info);
}

void info_print_environment(void)
{
    for (int i = 0; i < UT_ENV_COUNT; i++) {
        const struct ut_env_entry *e = ut_env_get(i);
        char value[1024], def[128], allowed[320];
        if (!ut_env_is_shown(e))
            continue;
        info_env_value(e, value, sizeof(value));
        info_env_default(e, def, sizeof(def));
        ut_env_allowed(e, allowed, sizeof(allowed));
        printf("%s%s%s=%s%s\n", e->variable ? e->variable->name : "", e->variable ? "=...," : "",
               e->name, value,
               e->why_bad  ? "   (not allowed)"
               : e->is_set ? "   (set)"
                           : "");
        printf("%*s%s; default %s\n", INDENT, "", allowed, *def ? def : "empty");
        printf("%*s", INDENT, "");
        wrap(e->help, INDENT, "");
    }
    const struct ut_env_entry *old;
    for (int at = 0; (old = ut_env_next_old(&at));) {
        char spelling[1024];
        ut_env_spell(old, spelling, sizeof(spelling));
        printf("%s   (an old name, which the next release does not know; write %s)\n",
               old->old_name, spelling);
    }
    struct ut_env_misspelt m;
    for (char **at = environ; ut_env_next_misspelt(&at, &m);)
        printf("%s   (unknown; did you mean %s?)\n", m.name, m.meant);
}

void info_print_codes(const struct ut_code *const *codes, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        printf("%s (%d)\n%*s", codes[i]->name, codes[i]->number, INDENT, "");
        wrap(codes[i]->meaning, INDENT, "");
        printf("%*s-> ", INDENT, "");
        wrap(codes[i]->remedy, INDENT + 3, "");
    }
}

void info_print_checks(const struct info_checks *checks, bool only_failed, const char *prefix)
{
    static const char *const verdicts[] = {"ok", "note", "FAIL"};
    char text[2 * INFO_TEXT];

    for (unsigned int i = 0; i < checks->num; i++) {
        const struct info_check *c = &checks->list[i];
        if (only_failed && c->verdict != INFO_FAIL)
            continue;
        printf("%s%-5s ", prefix, verdicts[c->verdict]);
        snprintf(text, sizeof(text), "%s: %s", c->name, c->text);
        wrap(text, 6, prefix);
        if (*c->remedy) {
            printf("%s%6s", prefix, "");
            snprintf(text, sizeof(text), "-> %s", c->remedy);
            wrap(text, 6, prefix);
        }
    }
    if (!only_failed && checks->num_failed == 0)
        printf("%snothing would keep a job from running here\n", prefix);
    else if (!only_failed)
        printf("%s%u thing%s would keep a job from running here\n", prefix, checks->num_failed,
               checks->num_failed == 1 ? "" : "s");
}

void info_print_findings(void)
{
    const struct ut_check_finding *f;

    for (unsigned int i = 0; (f = ut_check_finding(i)) != NULL; i++)
        printf("%s\n    %s\n    instead: %s (manual %s)\n", f->id, f->what, f->instead,
               f->sections);
}
