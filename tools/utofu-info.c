/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-info [options]
 *
 * Shows what the library finds here: transports, devices, the job, limits, variables. In a job the
 * first process speaks, or all do. What is wrong with the command line is one line and status 2.
 */
#include "info/info.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/log.h"

enum { STATUS_FAILED = 1, STATUS_USAGE = 2, OUT_BYTES = 1 << 16, OTHERS_WAIT_S = 1 };

static struct {
    bool environment, check, all, json;
} opt;

static void __attribute__((noreturn, format(printf, 1, 2))) usage_error(const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, INFO_NAME ": ");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "; try " INFO_NAME " --help\n");
    exit(STATUS_USAGE);
}

static void print_help(void)
{
    printf("Usage: utofu-info [options]\n"
           "Shows what the uTofu library finds here: the job, the provider and why it was chosen,\n"
           "RDMA ports, CQs, capabilities of the TNIs. Started with utofurun, mpirun, mpiexec or\n"
           "srun it shows what a process of that job finds; the first one speaks.\n\n"
           "  -e, --environment  every environment variable with its value, default and meaning\n"
           "  -c, --check        look for what would keep a job from running here and tell the\n"
           "                     remedies; every process looks, the first of each node tells\n"
           "                     all, the others what failed\n"
           "  -a, --all          every process speaks\n"
           "      --json         one line of JSON\n"
           "  -h, --help         print this text\n"
           "  -V, --version      print the version\n\n"
           "The checks take a machine without a usable RDMA port for broken, unless the job they\n"
           "run in stays on one host, or UTOFU_PROVIDER=shm says that jobs do. What is only a\n"
           "loss of speed is a note.\n\n"
           "Exit status: 0, 1 when the library does not start or a check failed, 2 for wrong\n"
           "usage.\n");
}

static void read_options(int argc, char **argv)
{
    enum { JSON = 256 };
    static const struct option longs[] = {
        {"environment", no_argument, NULL, 'e'},
        {"check", no_argument, NULL, 'c'},
        {"all", no_argument, NULL, 'a'},
        {"json", no_argument, NULL, JSON},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int o;

    opterr = 0;
    while ((o = getopt_long(argc, argv, ":ecahV", longs, NULL)) != -1) {
        switch (o) {
        case 'e':
            opt.environment = true;
            break;
        case 'c':
            opt.check = true;
            break;
        case 'a':
            opt.all = true;
            break;
        case JSON:
            opt.json = true;
            break;
        case 'h':
            print_help();
            exit(0);
        case 'V':
            printf(INFO_NAME " (utofu-verbs) %s\n", UT_VERSION);
            exit(0);
        default:
            if (optopt && strncmp(argv[optind - 1], "--", 2) == 0)
                usage_error("%.*s takes no value", (int)strcspn(argv[optind - 1], "="),
                            argv[optind - 1]);
            if (optopt)
                usage_error("there is no option -%c", optopt);
            usage_error("there is no option %s", argv[optind - 1]);
        }
    }
    if (optind < argc)
        usage_error("it takes no arguments, and there is '%s'", argv[optind]);
    if (opt.environment && opt.check)
        usage_error("-e and --check do not go together");
#ifndef UT_HAVE_JANSSON
    if (opt.json)
        usage_error("it was built without jansson, so it has no --json");
#endif
}

#ifdef UT_HAVE_JANSSON
#    define EITHER(json_call, text_call) (opt.json ? (json_call) : (text_call))
#else
#    define EITHER(json_call, text_call) (text_call)
#endif

static int show_environment(void)
{
    int rc = ut_process_environment(); /* bad values are told on standard error */

    EITHER(info_json_environment(), info_print_environment());
    return rc ? STATUS_FAILED : 0;
}

static int show(const struct info *info)
{
    if (!info->process || info->process->job->rank == 0 || opt.all)
        EITHER(info_json(info), info_print(info));
    return info->process ? 0 : STATUS_FAILED;
}

static int check(const struct info *info)
{
    static struct info_checks checks;
    const struct ut_job_info *job = info->process ? info->process->job : NULL;
    char prefix[96] = "";
    bool others = job && job->size > 1;
    bool speaks = !job || job->local_rank == 0 || opt.all;

    info_check(info, &checks);
    if (others)
        snprintf(prefix, sizeof(prefix), "[%u %s] ", job->rank, info->host);
    if (speaks || checks.num_failed > 0)
        EITHER(info_json_checks(info, &checks), info_print_checks(&checks, !speaks, prefix));
    fflush(stdout);
    if (others && checks.num_failed > 0)
        sleep(OTHERS_WAIT_S); /* launchers end the others when the first one fails */
    return checks.num_failed ? STATUS_FAILED : 0;
}

int main(int argc, char **argv)
{
    static struct info info;
    int rc;

    read_options(argc, argv);
    setvbuf(stdout, NULL, _IOFBF, OUT_BYTES); /* the output of a process stays together */
    if (opt.environment)
        return show_environment();
    if (opt.check && ut_process_environment() == 0 && !ut_env_is_set(UT_ENV_LOG_LEVEL))
        ut_log_threshold = UT_LOG_NONE; /* the checks tell */
    info_gather(&info);
    rc = opt.check ? check(&info) : show(&info);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror(INFO_NAME);
        return STATUS_FAILED;
    }
    return rc;
}
