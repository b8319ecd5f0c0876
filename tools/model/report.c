/* SPDX-License-Identifier: Apache-2.0 */
/* The report as text and as JSON. */
#include "model/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "model/fail.h"
#include "model/deciles.h"
#include "model/mpi.h"
#include "model/sums.h"

enum { RANKS_SHOWN = 16 };

static double us_of(double ns)
{
    return ns * 1e-3;
}

/*
 * Text
 */

static void print_beside(const struct um_sim *s, const struct um_sim *other, const char *what_if)
{
    if (!other)
        return;
    printf("with %s: %.3f us, %.3g times as long\n", what_if, us_of(other->end),
           s->end > 0 ? other->end / s->end : 1);
}

/* What the time of each region rests on. */
static void print_bases(const struct um_sim *s, const struct um_region_sum *regions,
                        const double *least)
{
    char place[UM_BASIS_TEXT];

    printf("\n%12s %12s %12s %12s  %s\n", "told", "notices", "concluded", "at least us",
           "waits of the region");
    for (size_t i = 0; i < s->program->num_regions; i++) {
        const struct um_basis_sum *b = &regions[i].basis;
        for (int basis = 0; basis < UM_BASES; basis++)
            printf("%10.1f %% ", um_basis_percent(b, (enum um_basis)basis));
        printf("%12.3f  %s\n", us_of(least[i]), regions[i].name);
        um_basis_place(s, b, place, sizeof(place));
        if (um_basis_percent(b, UM_CONCLUDED) >= 1)
            printf("%51s  %.0f %% concluded: put utofu_profile_seen there: %s\n", "",
                   um_basis_percent(b, UM_CONCLUDED), place);
    }
}

static void print_regions(const struct um_sim *s, const struct um_sim *other, const double *least)
{
    if (s->program->num_regions == 0)
        return;
    struct um_region_sum *regions = um_sum_regions(s);
    struct um_region_sum *beside = other ? um_sum_regions(other) : NULL;
    printf("\n%12s %12s %12s %10s%s  %s\n", "mean us", "min us", "max us", "calls",
           other ? "      changed" : "", "region");
    for (size_t i = 0; i < s->program->num_regions; i++) {
        const struct um_region_sum *r = &regions[i];
        double calls = r->calls ? (double)r->calls : 1;
        printf("%12.3f %12.3f %12.3f %10" PRIu64, us_of(r->sum / calls), us_of(r->least),
               us_of(r->most), r->calls);
        if (other)
            printf(" %12.3f", us_of(beside[i].sum / calls));
        printf("  %s\n", r->name);
    }
    print_bases(s, regions, least);
    um_free_regions(regions, s->program->num_regions);
    if (beside)
        um_free_regions(beside, other->program->num_regions);
}

static void print_ranks(const struct um_sim *s)
{
    struct um_rank_sum *ranks = um_sum_ranks(s);

    printf("\n%8s %12s %12s %12s\n", "rank", "wait us", "calls us", "compute us");
    for (uint32_t i = 0; i < s->program->size && i < RANKS_SHOWN; i++)
        printf("%8u %12.3f %12.3f %12.3f\n", i, us_of(ranks[i].wait), us_of(ranks[i].call),
               us_of(ranks[i].compute));
    if (s->program->size > RANKS_SHOWN)
        printf("%8s (--json has all of the %u ranks)\n", "...", s->program->size);
    free(ranks);
}

static void print_path(const struct um_sim *s)
{
    struct um_part parts[UM_PARTS];
    double total;
    unsigned int num = um_critical_path(s, parts, &total);

    printf("\ncritical path\n");
    for (unsigned int i = 0; i < num; i++)
        printf("%7.1f %%  %s\n", 100 * parts[i].ns / total, parts[i].text);
}

static void print_loads(const struct um_sim *s, const struct um_load *loads, unsigned int num,
                        const char *title)
{
    printf("\nbusiest %s\n", title);
    for (unsigned int i = 0; i < num; i++)
        printf("%7.1f %%  %12.0f B  %s\n", 100 * loads[i].busy / s->end, loads[i].bytes,
               loads[i].name);
}

static void print_deciles(const struct um_deciles *d, const char *name)
{
    printf("%12.3f %12.3f %12.3f  %s\n", us_of(d->at[0]), us_of(d->at[4]),
           us_of(d->at[UM_DECILES - 1]), name);
}

/* Without noise: is the result that of ranks in step? */
static void print_noise(const struct um_sim *s, const struct um_noise *noise)
{
    if (!noise && s->options.compute <= 0 && s->program->size > 1)
        printf("(best case: all ranks begin at once and nothing disturbs them; --noise SEED)\n");
    if (!noise)
        return;
    printf("\n%12s %12s %12s  with noise, %d runs of seed %" PRIu64 "\n", "1st decile", "median",
           "9th decile", UM_NOISE_RUNS, noise->seed);
    print_deciles(&noise->end, "(the job)");
    for (size_t i = 0; i < s->program->num_regions; i++)
        print_deciles(&noise->regions[i], s->program->regions[i]);
}

static void print_missing(const struct um_program *p)
{
    if (um_mpi_is_missing(p))
        puts("this program calls MPI, which is not recorded: times between its uTofu calls, and "
             "what "
             "they wait for, are a guess (utofu-record records MPI, too)");
}

void um_report_text(const struct um_sim *s, const struct um_sim *other, const char *what_if,
                    const struct um_noise *noise, const double *least)
{
    struct um_load loads[UM_LOADS];
    unsigned int num;

    print_missing(s->program);
    printf("%s, %u ranks on %u x %u x %u x %u x %u x %u: the job would take %.3f us\n",
           s->machine->name, s->program->size, s->place->extent[0], s->place->extent[1],
           s->place->extent[2], s->place->extent[3], s->place->extent[4], s->place->extent[5],
           us_of(s->end));
    print_beside(s, other, what_if);
    if (s->options.compute <= 0)
        printf("(communication alone: --compute F counts recorded CPU time)\n");
    print_noise(s, noise);
    if (s->program->failed)
        printf("(%" PRIu64 " communications failed when the program was recorded: they are taken "
               "for good ones)\n",
               s->program->failed);
    if (s->program->mpi && s->program->mpi->opaque)
        printf("(%" PRIu64 " calls of MPI are one-sided, or of communicators of two groups or "
               "worlds: they take no time)\n",
               s->program->mpi->opaque);
    print_regions(s, other, least);
    print_ranks(s);
    print_path(s);
    num = um_busiest_links(s, loads);
    if (num)
        print_loads(s, loads, num, "links");
    num = um_busiest_tnis(s, loads);
    if (num)
        print_loads(s, loads, num, "TNIs");
}

/*
 * JSON
 */

static json_t *need_json(json_t *json)
{
    if (!json)
        um_fail(UM_EXIT_BAD, "no memory for the JSON");
    return json;
}

static json_t *regions_of(const struct um_sim *s, const double *least)
{
    json_t *array = need_json(json_array());
    struct um_region_sum *regions = um_sum_regions(s);
    char place[UM_BASIS_TEXT];

    for (size_t i = 0; i < s->program->num_regions; i++) {
        const struct um_region_sum *r = &regions[i];
        um_basis_place(s, &r->basis, place, sizeof(place));
        json_t *region = need_json(json_pack(
            "{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:s}", "name", r->name, "calls",
            (json_int_t)r->calls, "mean_us", us_of(r->calls ? r->sum / (double)r->calls : 0),
            "min_us", us_of(r->least), "max_us", us_of(r->most), "told_percent",
            um_basis_percent(&r->basis, UM_TOLD), "notice_percent",
            um_basis_percent(&r->basis, UM_NOTICED), "concluded_percent",
            um_basis_percent(&r->basis, UM_CONCLUDED), "concluded_at", place));
        if (least)
            json_object_set_new(region, "at_least_us", need_json(json_real(us_of(least[i]))));
        json_array_append_new(array, region);
    }
    um_free_regions(regions, s->program->num_regions);
    return array;
}

static json_t *ranks_of(const struct um_sim *s)
{
    json_t *array = need_json(json_array());
    struct um_rank_sum *ranks = um_sum_ranks(s);

    for (uint32_t i = 0; i < s->program->size; i++) {
        const struct um_rank_sum *r = &ranks[i];
        json_array_append_new(
            array, need_json(json_pack("{s:i, s:f, s:f, s:f, s:f}", "rank", (int)i, "wait_us",
                                       us_of(r->wait), "call_us", us_of(r->call), "compute_us",
                                       us_of(r->compute), "end_us", us_of(r->end))));
    }
    free(ranks);
    return array;
}

static json_t *loads_of(const struct um_sim *s, const struct um_load *loads, unsigned int num)
{
    json_t *array = need_json(json_array());

    for (unsigned int i = 0; i < num; i++)
        json_array_append_new(
            array, need_json(json_pack("{s:s, s:f, s:f, s:f}", "name", loads[i].name, "busy_us",
                                       us_of(loads[i].busy), "busy_percent",
                                       100 * loads[i].busy / s->end, "bytes", loads[i].bytes)));
    return array;
}

static json_t *path_of(const struct um_sim *s)
{
    struct um_part parts[UM_PARTS];
    double total;
    unsigned int num = um_critical_path(s, parts, &total);
    json_t *array = need_json(json_array());

    for (unsigned int i = 0; i < num; i++)
        json_array_append_new(
            array, need_json(json_pack("{s:s, s:f, s:f}", "what", parts[i].text, "us",
                                       us_of(parts[i].ns), "percent", 100 * parts[i].ns / total)));
    return array;
}

static json_t *run_of(const struct um_sim *s, const double *least)
{
    struct um_load links[UM_LOADS], tnis[UM_LOADS];
    unsigned int num_links = um_busiest_links(s, links), num_tnis = um_busiest_tnis(s, tnis);

    return need_json(json_pack("{s:s, s:i, s:f, s:f, s:I, s:o, s:o, s:o, s:o, s:o}", "machine",
                               s->machine->name, "ranks", (int)s->program->size, "time_us",
                               us_of(s->end), "compute", s->options.compute, "failed",
                               (json_int_t)s->program->failed, "regions", regions_of(s, least),
                               "per_rank", ranks_of(s), "critical_path", path_of(s), "links",
                               loads_of(s, links, num_links), "tnis", loads_of(s, tnis, num_tnis)));
}

static json_t *deciles_of(const struct um_deciles *d)
{
    json_t *array = need_json(json_array());

    for (int i = 0; i < UM_DECILES; i++)
        json_array_append_new(array, need_json(json_real(us_of(d->at[i]))));
    return need_json(
        json_pack("{s:f, s:o}", "median_us", us_of(d->at[UM_DECILES / 2]), "deciles_us", array));
}

static json_t *noise_of(const struct um_sim *s, const struct um_noise *noise)
{
    json_t *array = need_json(json_array());

    for (size_t i = 0; i < s->program->num_regions; i++) {
        json_t *region = deciles_of(&noise->regions[i]);
        json_object_set_new(region, "name", need_json(json_string(s->program->regions[i])));
        json_array_append_new(array, region);
    }
    json_t *all = deciles_of(&noise->end);
    json_object_set_new(all, "seed", need_json(json_integer((json_int_t)noise->seed)));
    json_object_set_new(all, "runs", need_json(json_integer(UM_NOISE_RUNS)));
    json_object_set_new(all, "regions", array);
    return all;
}

static const char *name_mpi(const struct um_program *p)
{
    return um_mpi_is_missing(p) ? "missing" : p->mpi ? "recorded" : "none";
}

void um_report_json(const struct um_sim *s, const struct um_sim *other, const char *what_if,
                    const struct um_noise *noise, const double *least)
{
    json_t *root = run_of(s, least);

    json_object_set_new(root, "tool", need_json(json_string("utofu-model")));
    json_object_set_new(root, "best_case", json_boolean(!noise && s->options.compute <= 0));
    if (noise)
        json_object_set_new(root, "noise", noise_of(s, noise));
    json_object_set_new(root, "mpi", need_json(json_string(name_mpi(s->program))));
    json_object_set_new(
        root, "mpi_opaque",
        need_json(json_integer(s->program->mpi ? (json_int_t)s->program->mpi->opaque : 0)));
    if (other) {
        json_t *changed = run_of(other, NULL);
        json_object_set_new(changed, "change", need_json(json_string(what_if)));
        json_object_set_new(root, "what_if", changed);
    }
    if (json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0)
        tool_output_failed(0);
    putchar('\n');
    json_decref(root);
}
