/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utofu-info [options] utofu-info --explain CODE... utofu-info --check-list
 *
 * Shows the state of the library here: transports, devices, the job, limits, variables. In a job
 * the first process prints, or all do. A wrong command line causes one line and status 2.
 */
#include "info/info.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/job.h"
#include "output.h"
#include "util/build_id.h"
#include "util/log.h"

enum { STATUS_FAILED = 1, STATUS_USAGE = 2, OUT_BYTES = 1 << 16, OTHERS_WAIT_S = 1 };

enum { MAX_CODES = 128 };

static struct {
    bool environment, check, all, json, report, check_list, env;
    const char *report_file;                /* NULL: named after the host */
    const struct ut_code *codes[MAX_CODES]; /* to explain */
    size_t num_codes;
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
           "Shows what the uTofu library finds here: the job, the provider and why it was\n"
           "chosen, RDMA ports, CQs, capabilities of the TNIs. Started with utofurun,\n"
           "mpirun, mpiexec or srun it shows what a process of that job finds; the first\n"
           "one speaks.\n\n"
           "  -e, --environment  every environment variable: its value, default and meaning\n"
           "  -c, --check        check for what would keep a job from running here, with\n"
           "                     remedies; every process checks, the first of each node\n"
           "                     prints all, the others what failed\n"
           "  -r, --report[=FILE]  all of this, and what the host says about itself and its\n"
           "                     adapters, in one file to be sent with a question; default\n"
           "                     utofu-report.HOST.txt, - is standard output. It has host\n"
           "                     names and addresses, and no keys. The first process of\n"
           "                     each node writes one\n"
           "  -a, --all          every process prints\n"
           "      --explain CODE...  what return codes mean and what to do about them:\n"
           "                     numbers, names with or without UTOFU_ERR_, or all\n"
           "      --env          lines for the shell that an installation into a folder of\n"
           "                     its own needs, for compilers, programs and man:\n"
           "                     eval \"$(PREFIX/bin/utofu-info --env)\"\n"
           "      --check-list   the findings of UTOFU_CHECK, what each means, what to do\n"
           "                     instead\n"
           "      --json         one line of JSON\n"
           "  -h, --help         print this text\n"
           "  -V, --version      print the version\n\n"
           "A check fails where the job that it runs in cannot work: without a usable RDMA\n"
           "port one over several hosts, or with UTOFU_PROVIDER=verbs or\n"
           "UTOFU_VERBS_DEVICES. So UTOFU_PROVIDER=verbs utofu-info --check says whether a\n"
           "host is fit for RDMA. What costs speed is a note that says how much.\n\n"
           "Exit status: 0, 1 when the library does not start, a check failed, or a report\n"
           "or the output could not be written, 2 for wrong usage.\n");
}

static void add_code(const struct ut_code *code)
{
    if (opt.num_codes == MAX_CODES)
        usage_error("it explains %d codes at once, not more", MAX_CODES);
    opt.codes[opt.num_codes++] = code;
}

static void read_code(const char *text)
{
    const struct ut_code *code = ut_code_find(text);

    if (strcmp(text, "all") == 0) {
        for (size_t i = 0; i < ut_num_codes; i++)
            add_code(&ut_codes[i]);
    } else if (code) {
        add_code(code);
    } else {
        usage_error("there is no return code '%s': " INFO_NAME " --explain all shows them", text);
    }
}

/* The codes after --explain; negative numbers look like options. */
static void read_codes(int argc, char **argv)
{
    read_code(optarg);
    while (optind < argc && strncmp(argv[optind], "--", 2) != 0)
        read_code(argv[optind++]);
}

static void refuse_combinations(int argc)
{
    if (opt.environment && opt.check)
        usage_error("-e and --check do not go together");
    if (opt.report && (opt.environment || opt.check || opt.all || opt.json || opt.num_codes))
        usage_error("--report goes together with no other option");
    if (opt.report_file && !*opt.report_file)
        usage_error("--report= wants a file, or -");
    if (opt.num_codes && (opt.environment || opt.check || opt.all))
        usage_error("--explain does not go together with -e, --check and --all");
    if (opt.check_list &&
        (opt.environment || opt.check || opt.all || opt.json || opt.report || opt.num_codes))
        usage_error("--check-list goes together with no other option");
    if (opt.env && argc > 2)
        usage_error("--env goes together with no other option");
#ifndef UT_HAVE_JANSSON
    if (opt.json)
        usage_error("it was built without jansson, so it has no --json");
#endif
}

static void read_options(int argc, char **argv)
{
    enum { JSON = 256, EXPLAIN, CHECK_LIST, ENV };
    static const struct option longs[] = {
        {"environment", no_argument, NULL, 'e'},
        {"check", no_argument, NULL, 'c'},
        {"report", optional_argument, NULL, 'r'},
        {"all", no_argument, NULL, 'a'},
        {"json", no_argument, NULL, JSON},
        {"explain", required_argument, NULL, EXPLAIN},
        {"env", no_argument, NULL, ENV},
        {"check-list", no_argument, NULL, CHECK_LIST},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int o;

    opterr = 0;
    while ((o = getopt_long(argc, argv, ":ecr::ahV", longs, NULL)) != -1) {
        switch (o) {
        case 'e':
            opt.environment = true;
            break;
        case 'c':
            opt.check = true;
            break;
        case 'r':
            opt.report = true;
            opt.report_file = optarg;
            break;
        case 'a':
            opt.all = true;
            break;
        case JSON:
            opt.json = true;
            break;
        case EXPLAIN:
            read_codes(argc, argv);
            break;
        case ENV:
            opt.env = true;
            break;
        case CHECK_LIST:
            opt.check_list = true;
            break;
        case ':':
            usage_error("%s wants a return code, such as -193, MRQ_PEER or all", argv[optind - 1]);
        case 'h':
            print_help();
            exit(0);
        case 'V':
            printf(INFO_NAME " (utofu-verbs) %s\n", ut_build_id);
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
    refuse_combinations(argc);
}

#ifdef UT_HAVE_JANSSON
#    define EITHER(json_call, text_call) (opt.json ? (json_call) : (text_call))
#else
#    define EITHER(json_call, text_call) (text_call)
#endif

static int show_environment(void)
{
    int rc = ut_process_environment(); /* reports bad values on standard error */

    EITHER(info_json_environment(), info_print_environment());
    return rc ? STATUS_FAILED : 0;
}

static int explain(void)
{
    EITHER(info_json_codes(opt.codes, opt.num_codes), info_print_codes(opt.codes, opt.num_codes));
    return 0;
}

static int show(const struct info *info)
{
    if (!info->process || info->process->job->rank == 0 || opt.all)
        EITHER(info_json(info), info_print(info));
    return info->process ? 0 : STATUS_FAILED;
}

static int report(const struct info *info)
{
    const struct ut_job_info *job = info->process ? info->process->job : NULL;

    return (!job || job->local_rank == 0) && info_report(info, opt.report_file) ? STATUS_FAILED : 0;
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
    tool_output_flush();
    if (others && checks.num_failed > 0)
        sleep(OTHERS_WAIT_S); /* launchers end the others when the first one fails */
    return checks.num_failed ? STATUS_FAILED : 0;
}

int main(int argc, char **argv)
{
    static struct info info;
    int rc;

    tool_output_open(INFO_NAME);
    read_options(argc, argv);
    setvbuf(stdout, NULL, _IOFBF, OUT_BYTES); /* keeps the output of a process together */
    if (opt.environment)
        return show_environment();
    if (opt.env)
        return info_print_shell_lines() ? STATUS_FAILED : 0;
    if (opt.check || opt.report)
        info_hear_warnings();
    if ((opt.check || opt.report) && ut_process_environment() == 0 &&
        !ut_env_is_set(UT_ENV_LOG_LEVEL))
        ut_log_threshold = UT_LOG_NONE; /* the checks report errors */
    if (opt.check_list) {
        info_print_findings();
        rc = 0;
    } else if (opt.num_codes) {
        rc = explain();
    } else {
        info_gather(&info);
        rc = opt.report ? report(&info) : opt.check ? check(&info) : show(&info);
        if (opt.report || opt.check) { /* other processes may still look for this one */
            tool_output_flush();
            ut_job_leave_together((int)ut_env_num(UT_ENV_JOB_TIMEOUT) * 1000);
        }
    }
    return rc;
}
