/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of the machine's keys with which the model would tell what was measured: least squares of
 * the logarithms, by steps of Gauss and Newton that are damped (Levenberg and Marquardt). A weak
 * pull towards the present values keeps keys that the recording says nothing of.
 */
#include "model/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/fail.h"

enum { ROUNDS = 8, MOST_KEYS = 64 };
static const double pull = 1e-3, largest_change = 1.5, shown_change = 0.02;

/* A key that is 0 moves in steps, another one by factors. */
static double scale_of(const struct um_machine *machine, size_t key)
{
    struct um_machine copy = *machine;
    double value = *um_key_value(&copy, key);

    return value > 0 ? value : um_key_step(machine, key);
}

static bool has_both(const struct um_row *r)
{
    return r->measured > 0 && r->told > 0;
}

static double sum_squares(const struct um_rows *rows)
{
    double sum = 0;

    for (size_t i = 0; i < rows->num; i++) {
        double d = has_both(&rows->rows[i]) ? log(rows->rows[i].told / rows->rows[i].measured) : 0;
        sum += d * d;
    }
    return sum;
}

/* Gauss elimination with the largest pivot of the column. False: singular. */
static bool solve_equations(double a[MOST_KEYS][MOST_KEYS + 1], size_t n)
{
    for (size_t k = 0; k < n; k++) {
        size_t best = k;
        for (size_t i = k + 1; i < n; i++)
            if (fabs(a[i][k]) > fabs(a[best][k]))
                best = i;
        if (fabs(a[best][k]) < 1e-12)
            return false;
        for (size_t j = 0; j <= n && best != k; j++) {
            double swap = a[k][j];
            a[k][j] = a[best][j];
            a[best][j] = swap;
        }
        for (size_t i = 0; i < n; i++) {
            double factor = i == k ? 0 : a[i][k] / a[k][k];
            for (size_t j = k; j <= n && factor != 0; j++)
                a[i][j] -= factor * a[k][j];
        }
    }
    return true;
}

/* d log(told) / d (relative change of the key), for each row. */
static void find_slopes(const struct um_sim *sim, const struct um_machine *machine,
                        const struct um_rows *rows, double *slopes)
{
    for (size_t k = 0; k < um_num_keys; k++) {
        struct um_machine other = *machine;
        if (!um_keys[k].name)
            continue;
        double step = um_key_step(machine, k), scale = scale_of(machine, k);
        *um_key_value(&other, k) += step;
        struct um_rows changed = um_compare_with(sim, &other);
        for (size_t i = 0; i < rows->num && changed.num == rows->num; i++)
            if (has_both(&rows->rows[i]) && changed.rows[i].told > 0)
                slopes[i * um_num_keys + k] =
                    log(changed.rows[i].told / rows->rows[i].told) / (step / scale);
        um_rows_free(&changed);
    }
}

/* The machine after one step. */
static bool make_step(const struct um_machine *from, const struct um_rows *rows,
                      const double *slopes, double damping, struct um_machine *to)
{
    double a[MOST_KEYS][MOST_KEYS + 1] = {{0}};

    for (size_t i = 0; i < rows->num; i++) {
        const double *row = &slopes[i * um_num_keys];
        double wanted =
            has_both(&rows->rows[i]) ? log(rows->rows[i].measured / rows->rows[i].told) : 0;
        for (size_t k = 0; k < um_num_keys; k++) {
            a[k][um_num_keys] += row[k] * wanted;
            for (size_t j = 0; j < um_num_keys; j++)
                a[k][j] += row[k] * row[j];
        }
    }
    for (size_t k = 0; k < um_num_keys; k++)
        a[k][k] += pull + damping;
    if (!solve_equations(a, um_num_keys))
        return false;
    *to = *from;
    for (size_t k = 0; k < um_num_keys; k++) {
        double change = a[k][um_num_keys] / a[k][k];
        change = fmin(fmax(change, -largest_change), largest_change);
        double scale = scale_of(from, k), *value = um_key_value(to, k);
        if (!um_keys[k].name)
            continue;
        *value = *value > 0 ? *value * exp(change) : fmax(change * scale, 0);
        *value = fmax(*value, um_keys[k].least);
    }
    return true;
}

/* The best machine that some damping gives. False: none is better. */
static bool improve_machine(const struct um_sim *sim, struct um_machine *machine,
                            struct um_rows *rows)
{
    double *slopes = um_calloc(rows->num * um_num_keys, sizeof(*slopes));
    double before = sum_squares(rows);
    bool better = false;

    find_slopes(sim, machine, rows, slopes);
    for (double damping = 0; damping < 100 && !better; damping = damping * 10 + 0.01) {
        struct um_machine next;
        if (!make_step(machine, rows, slopes, damping, &next))
            continue;
        struct um_rows told = um_compare_with(sim, &next);
        if (told.num == rows->num && sum_squares(&told) < before * 0.999) {
            better = true;
            *machine = next;
            um_rows_free(rows);
            *rows = told;
        } else {
            um_rows_free(&told);
        }
    }
    free(slopes);
    return better;
}

void um_fit_print(const struct um_sim *sim)
{
    struct um_machine machine = *sim->machine, old = machine;
    struct um_rows rows = um_compare_rows(sim);
    double before = um_compare_error(&rows);
    const char *table = "";

    if (um_num_keys > MOST_KEYS)
        um_fail(UM_EXIT_BAD, "there are more keys than --fit has room for");
    for (int i = 0; i < ROUNDS && improve_machine(sim, &machine, &rows); i++)
        ;
    printf("mean difference of %zu medians: %.1f %% before, %.1f %% after\n", rows.num,
           100 * before, 100 * um_compare_error(&rows));
    for (size_t k = 0; k < um_num_keys; k++) {
        double was = *um_key_value(&old, k), is = *um_key_value(&machine, k);
        const char *dot = um_keys[k].name ? strchr(um_keys[k].name, '.') : NULL;
        if (!dot || fabs(is - was) <= shown_change * fmax(was, 1e-9))
            continue;
        if (strncmp(table, um_keys[k].name, (size_t)(dot - um_keys[k].name + 1)) != 0)
            printf("\n[%.*s]\n", (int)(dot - um_keys[k].name), um_keys[k].name);
        table = um_keys[k].name;
        printf("%s = %.4g    # %.4g\n", dot + 1, is, was);
    }
    puts("\nProposals only: no file was changed. A key that is not here stays as it is, also "
         "because\n"
         "the recording may say nothing of it.");
    um_rows_free(&rows);
}
